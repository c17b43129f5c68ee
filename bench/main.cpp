// nobounce_gpu_bench: what transfers cost beside the plain driver calls, as JSON with ratios of one
// run.
#include <string>
#include <vector>

#include "bench/measure.hpp"

int main(int argc, char** argv) {
  using namespace nobounce::bench;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words[0];
  if (command == "copy") return copy(words);
  if (command == "peer") return peer(words);
  if (command == "async") return async_reads(words);
  if (command == "peer-import") return peer_import(words);
  if (command == "overhead") return overhead(words);
  if (command == "ledger-cost") return ledger_cost(words);
  if (command == "nccl-log") return nccl_log(words);
  if (command == "training-log") return training_log(words);
  if (command == "explain") return explain(words);
  return failed(
      "nobounce_gpu_bench copy [--folder DIR] [--file FILE] [--bytes N] [--sweep yes]\n"
      "nobounce_gpu_bench peer\n"
      "nobounce_gpu_bench async [--folder DIR] [--bytes N] [--few yes]\n"
      "nobounce_gpu_bench overhead\n"
      "nobounce_gpu_bench ledger-cost\n"
      "nobounce_gpu_bench nccl-log --output FILE [--ranks N] [--bytes N]\n"
      "nobounce_gpu_bench training-log --output FILE [--bytes N]\n"
      "nobounce_gpu_bench explain --file FILE [--runs N]");
}
