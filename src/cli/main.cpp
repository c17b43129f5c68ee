// The entry point.
#include "cli/program.hpp"

int main(int count, char** values) {
  return nobounce::cli::run_program(count, values);
}
