// Text about GPUs and network adapters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/completion_status.hpp"
#include "judge/nccl_level.hpp"
#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

using core::CaptureSign;
using core::SignKind;

bool is_sockets(const std::string& plugin) {
  return plugin == "Socket" || plugin == "FastSocket";
}

bool is_verbs(const std::string& plugin) {
  return plugin == "IB" || plugin.rfind("IBext", 0) == 0 || plugin.empty();
}

/// Sockets of an adapter are no path of GPU memory; a plugin answers for itself; for verbs the
/// peer-memory module decides, or rather what this version of the library sees of it.
void blame_registration(const TextCase& text, TextRow& row, const std::string& plugin) {
  if (!is_verbs(plugin)) {
    if (is_sockets(plugin)) blame(row, Cause::rdma_socket_transport);
    blame(row, Cause::rdma_plugin_without_gdr);
    return;
  }
  if (text.amd()) {
    const CaptureSign* peers = text.first(SignKind::memory_peers);
    const bool seen = peers != nullptr && peers->value > 0;
    blame(row, seen ? Cause::rdma_registration_failed : Cause::rdma_peermem_not_loaded);
    if (peers != nullptr) cite(row, *peers);
    return;
  }
  const CaptureSign* module = text.module_loaded("nvidia_peermem");
  if (module == nullptr) module = text.module_loaded("nv_peer_mem");
  if (module != nullptr) {
    // From 2.23.4 on NCCL looks at the module itself; older ones need memory_peers.
    const CaptureSign* peers = text.first(SignKind::memory_peers);
    const CaptureSign* version = text.first(SignKind::library_version);
    const bool seen =
        (peers != nullptr && peers->value > 0) || (version != nullptr && version->value >= 22304);
    blame(row, seen ? Cause::rdma_registration_failed : Cause::rdma_peermem_unseen_by_library);
    cite(row, *module);
    if (version != nullptr) cite(row, *version);
    if (peers != nullptr) cite(row, *peers);
    return;
  }
  blame(row, Cause::rdma_peermem_not_loaded);
  if (!text.any(SignKind::module_absent) && row.verdict.reason.find("lsmod") == std::string::npos)
    row.verdict.reason +=
        "; lsmod would tell whether the module is missing, as is likely, or "
        "unseen";
  for (const CaptureSign* absent : text.module_absent("nvidia_peermem")) cite(row, *absent);
}

/// The GPU beside the adapter: where traffic goes through another GPU, that one; empty where
/// nothing says which.
std::string gpu_beside(const CaptureSign& sign) {
  if (sign.numbers.empty()) return sign.source;
  if (sign.numbers.front() < 0) return {};
  return "GPU" + std::to_string(static_cast<std::uint64_t>(sign.numbers.front()));
}

struct NetContext {
  std::set<std::string> allowed_gpus;  ///< a distance within the limit
  bool any_use = false;
  std::map<std::string, const CaptureSign*> refused_distance;  ///< by node and GPU, or node
};

const CaptureSign* refused_distance_of(const NetContext& context, const CaptureSign& sign) {
  for (const std::string& key :
       {sign.host + '|' + sign.source, '|' + sign.source, sign.host + '|', std::string("|")}) {
    const auto found = context.refused_distance.find(key);
    if (found != context.refused_distance.end()) return found->second;
  }
  return nullptr;
}

TextRow& net_row(TextCase& text, const CaptureSign& sign, Verdict verdict, std::string reason) {
  const std::string adapter = text.name_of_adapter(sign.target);
  TextRow& row = text.add(
      Member::rdma, verdict,
      pair_subject(text, sign.host,
                   sign.source.empty() && !adapter.empty() ? std::string("GPU") : sign.source,
                   adapter),
      sign.direction.empty() ? "both" : sign.direction, std::move(reason));
  if (row.verdict.subject.empty()) row.verdict.subject = "GPU-NIC";
  row.source = sign.source;
  row.target = adapter;
  row.host = sign.host;
  row.process = sign.other;
  if (sign.piece < text.captures().pieces.size())
    row.format = text.captures().pieces[sign.piece].kind;
  cite(row, sign);
  return row;
}

/// `status 4, local protection error; vendor error 81`.
std::string completion_text(const CaptureSign& error) {
  const auto status = static_cast<std::uint64_t>(error.value);
  std::string said = "status " + std::to_string(status);
  const std::string_view name = core::completion_status_name(status);
  if (!name.empty()) said += ", " + std::string(name);
  if (error.second > 0)
    said += "; vendor error " + std::to_string(static_cast<std::uint64_t>(error.second));
  return said;
}

Cause cause_of_completion(const CaptureSign& error) {
  return core::cause_of_completion_status(
      static_cast<std::uint64_t>(error.value),
      error.second > 0 ? static_cast<std::uint64_t>(error.second) : 0);
}

/// Whether the transfer that failed is one of this row's: of its process, its way round and its
/// adapter, as far as the error names them.
bool error_is_of(const TextCase& text, const CaptureSign& error, const TextRow& row) {
  if (!error.other.empty() && error.other != row.process) return false;
  const std::string& direction = row.verdict.direction;
  if (!error.direction.empty() && (direction == "send" || direction == "receive") &&
      error.direction != direction)
    return false;
  const std::string adapter = text.name_of_adapter(error.target);
  const bool named = row.target.rfind("NET", 0) != 0 && !row.target.empty();
  return adapter.empty() || !named || adapter == row.target;
}

std::string net_name(const CaptureSign& sign) {
  return sign.word + (sign.target.empty() ? "" : ", " + sign.target);
}

void judge_direct_use(TextCase& text, const CaptureSign& sign) {
  const std::string beside = gpu_beside(sign);
  const CaptureSign* level = text.level_of(beside, sign.target);
  const CaptureSign* nearer = text.nearest_adapter(beside);
  if (level != nullptr && nearer != nullptr && !text.coherent() && nearness(nearer->word) <= 1 &&
      nearness(level->word) > 1) {
    TextRow& row = net_row(text, sign, Verdict::degraded,
                           "GPU memory is used directly, through an adapter at " + level->word +
                               " while " + nearer->target + " is at " + nearer->word);
    blame(row, Cause::rdma_wrong_nic);
    cite(row, *level);
    if (nearer->lines != level->lines) cite(row, *nearer);
    if (const CaptureSign* chosen = text.setting("NCCL_IB_HCA")) cite(row, *chosen);
    row.use = true;
    return;
  }
  TextRow& row = net_row(text, sign, Verdict::direct,
                         "GPU memory is handed to the adapter (" + net_name(sign) + ", GDRDMA)");
  if (!sign.numbers.empty())
    row.verdict.reason += ", by way of " + (beside.empty() ? std::string("another GPU") : beside) +
                          ", which is beside it (PXN)";
  row.use = true;
  if (level == nullptr || level->word != "SYS" || text.coherent()) return;
  blame(row, Cause::machine_cross_socket);  // no adapter is nearer: worth knowing
  cite(row, *level);
}

/// What was set so that no adapter is used.
void cite_sockets_setting(const TextCase& text, TextRow& row) {
  const CaptureSign* off = text.setting("NCCL_IB_DISABLE");
  if (off != nullptr && off->other != "0") cite(row, *off);
  const CaptureSign* net = text.setting("NCCL_NET");
  if (net != nullptr && net->other == "Socket") cite(row, *net);
}

void judge_staged_use(TextCase& text, const NetContext& context, const CaptureSign& sign) {
  TextRow& row = net_row(
      text, sign, Verdict::staged,
      "the network is used through buffers in host memory (" + net_name(sign) + ", no GDRDMA)");
  if (is_sockets(sign.word)) {
    blame(row, Cause::rdma_socket_transport);
    cite_sockets_setting(text, row);
    if (text.any(SignKind::sockets_chosen) && text.first(SignKind::sockets_chosen)->value > 0)
      blame(row, Cause::rdma_no_rdma_device);
    return;
  }
  if (!is_verbs(sign.word)) {
    blame(row, Cause::rdma_plugin_without_gdr);
    return;
  }
  blame(row, Cause::rdma_host_buffers);
  bool told = false;
  if (const CaptureSign* off = text.adapter_off(sign.host)) {
    blame_registration(text, row, off->word);
    cite(row, *off);
    told = true;
  }
  if (const CaptureSign* distance = refused_distance_of(context, sign)) {
    blame(row, Cause::rdma_distance_over_limit);
    cite(row, *distance);
    told = true;
  }
  if (const CaptureSign* off = text.first(SignKind::gdr_off_topology)) {
    blame_registration(text, row, "");
    cite(row, *off);
    told = true;
  }
  if (told) return;
  if (const CaptureSign* refused = text.first(SignKind::module_refused)) {
    blame(row, Cause::rdma_peermem_load_failed);
    cite(row, *refused);
    return;
  }
  const CaptureSign* level = text.level_of(gpu_beside(sign), sign.target);
  // Beyond PXB every version stages, unless it is told otherwise.
  if (level == nullptr || nearness(level->word) < 2 || text.coherent()) return;
  for (const char* name : {"NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL"}) {
    const CaptureSign* limit = text.setting(name);
    if (limit == nullptr) continue;
    const auto admits = nccl_level_admits(limit->other, level->word, text.nccl_version());
    if (!admits.has_value()) continue;
    // It admits this distance, or none at all: then the distance is not the reason.
    if (*admits || !nccl_level_admits(limit->other, "", text.nccl_version()).value_or(true)) return;
    cite(row, *limit);
  }
  blame(row, Cause::rdma_distance_over_limit);
  if (level->word == "SYS") blame(row, Cause::machine_cross_socket);
  cite(row, *level);
}

void judge_use(TextCase& text, NetContext& context) {
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_distance))
    context.refused_distance.emplace(sign->host + '|' + sign->source, sign);
  for (const CaptureSign* sign : text.all(SignKind::net_use)) {
    context.any_use = true;
    if (sign->other == "cut") {
      TextRow& row = net_row(text, *sign, Verdict::unknown,
                             "the line is cut off before it says whether GPU memory is used");
      blame(row, Cause::evidence_text_incomplete);
      continue;
    }
    if (sign->value > 0) {
      judge_direct_use(text, *sign);
    } else {
      judge_staged_use(text, context, *sign);
    }
  }
  for (const CaptureSign* sign : text.all(SignKind::gdr_on_distance))
    context.allowed_gpus.insert(sign->host + "|" + sign->source);
}

/// A completion error means that a path was in use and failed: the rows that it can be of are
/// broken, of the others nobody knows whether their bytes arrived.
void judge_errors(TextCase& text) {
  const auto& errors = text.all(SignKind::net_error);
  if (errors.empty()) return;
  std::map<std::string, std::vector<const CaptureSign*>> by_process;
  for (const CaptureSign* error : errors) {
    constexpr std::size_t errors_max = 64;  // of one process; what follows repeats them
    std::vector<const CaptureSign*>& of_process = by_process[error->other];
    if (of_process.size() < errors_max) of_process.push_back(error);
  }
  for (TextRow& row : text.rows()) {
    if (row.verdict.member != Member::rdma || !row.use) continue;
    row.use = false;
    // A flush is the consequence of another error.
    const CaptureSign* own = nullptr;
    for (const std::string& process : std::set<std::string>{row.process, std::string()}) {
      const auto found = by_process.find(process);
      if (found == by_process.end()) continue;
      for (const CaptureSign* error : found->second) {
        if (!error_is_of(text, *error, row)) continue;
        if (own == nullptr || (own->value == 5 && error->value != 5)) own = error;
      }
    }
    if (own != nullptr) {
      row.verdict.verdict = Verdict::broken;
      row.verdict.reason = "GPU memory is handed to the adapter, and the transfer fails (" +
                           completion_text(*own) + ")";
      row.status = static_cast<int>(own->value);
      blame(row, cause_of_completion(*own));
      cite(row, *own);
      continue;
    }
    row.verdict.verdict = Verdict::unknown;
    row.verdict.reason =
        "GPU memory is handed to the adapter; transfers of the job failed elsewhere or the other "
        "way round, and nothing shows that these bytes arrived";
    row.weight = RowWeight::open;
    row.status = -1;
    blame(row, Cause::evidence_text_incomplete);
    cite(row, *errors.front());
  }
  std::set<std::string> said;
  for (const CaptureSign* sign : errors) {
    if (!said.insert(sign->host + sign->source + sign->direction + std::to_string(sign->value))
             .second ||
        said.size() > 256)
      continue;
    TextRow& row =
        net_row(text, *sign, Verdict::broken,
                "the adapter reports a completion error (" + completion_text(*sign) + ")");
    if (sign->source.empty() && sign->target.empty()) row.verdict.subject = "GPU-NIC";
    row.status = static_cast<int>(sign->value);
    blame(row, cause_of_completion(*sign));
  }
}

/// Adapters that cannot connect: whatever their rows say of memory, nothing travels.
void judge_unreached(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::net_unreached)) {
    TextRow& row = net_row(
        text, *sign, Verdict::impossible,
        "the adapter could not connect to that of the far side (ibv_modify_qp: " + sign->word +
            ")");
    row.process.clear();
    row.format = "modify_qp";
    const bool silent = sign->word.find("timed out") != std::string::npos;
    blame(row, silent ? Cause::rdma_retry_exceeded : Cause::rdma_no_gid);
  }
}

/// A job that hangs: its paths are in use, and nothing shows that bytes arrive.
void judge_timeouts(TextCase& text) {
  const CaptureSign* timeout = text.first(SignKind::collective_timeout);
  if (timeout == nullptr) return;
  for (TextRow& row : text.rows()) {
    if (!row.use || row.process.empty()) continue;  // of a log
    row.verdict.verdict = Verdict::unknown;
    row.verdict.reason =
        "this path is in use, and a collective of the job did not end: nothing shows "
        "that bytes arrive";
    row.weight = RowWeight::open;
    row.status = -1;
    row.use = false;
    blame(row,
          row.verdict.member == Member::p2p ? Cause::p2p_hang : Cause::evidence_text_incomplete);
    cite(row, *timeout);
  }
}

void judge_library_refusals(TextCase& text, const NetContext& context) {
  if (context.any_use) return;
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_adapter)) {
    TextRow& row = text.add(Member::rdma, Verdict::staged,
                            pair_subject(text, sign->host, text.name_of_adapter(sign->target), ""),
                            "both", "the library found no way to give GPU memory to this adapter");
    row.target = text.name_of_adapter(sign->target);
    row.host = sign->host;
    cite(row, *sign);
    blame_registration(text, row, sign->word);
  }
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_distance)) {
    const std::string gpu = sign->host + "|" + sign->source;
    if (context.allowed_gpus.count(gpu) > 0) continue;
    std::string reason = "the library refuses this distance (";
    reason += sign->word.empty() ? std::to_string(static_cast<int>(sign->value)) : sign->word;
    if (sign->value == sign->second) {
      reason += ", and takes only nearer ones";
    } else {
      reason += " beyond ";
      reason += sign->other.empty() ? std::to_string(static_cast<int>(sign->second)) : sign->other;
    }
    reason += sign->word.empty() ? "; what the numbers mean depends on the version)" : ")";
    TextRow& row = net_row(text, *sign, Verdict::staged, std::move(reason));
    row.process.clear();
    blame(row, Cause::rdma_distance_over_limit);
    if (sign->word == "SYS") blame(row, Cause::machine_cross_socket);
  }
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_plugin)) {
    const bool ucx = sign->word == "UCX";
    TextRow& row =
        text.add(Member::rdma, ucx ? Verdict::impossible : Verdict::staged, "GPU-NIC", "both",
                 ucx ? "this UCX has no support for CUDA: it takes GPU memory for host "
                       "memory, or refuses it"
                     : "the network plugin says that it does without GPU memory");
    if (ucx) row.format = "ucx";
    blame(row, Cause::rdma_plugin_without_gdr);
    cite(row, *sign);
  }
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_topology)) {
    TextRow& row =
        net_row(text, *sign, Verdict::staged,
                "the library's own view says that GPU memory cannot be registered (gdr=0)");
    blame_registration(text, row, "");
  }
  if (text.any(SignKind::gdr_off_adapter) || text.any(SignKind::gdr_off_plugin)) return;
  for (const CaptureSign* sign : text.all(SignKind::sockets_chosen)) {
    // Transports are shown and none leaves the node: whether anything does is not known.
    const bool stayed = sign->second > 0;
    TextRow& row = text.add(
        Member::rdma, stayed ? Verdict::unknown : Verdict::staged, "GPU-NIC", "both",
        stayed ? "the library chose sockets, and no transport that is shown leaves the node"
               : "the library chose sockets: what leaves the node goes through host memory");
    if (stayed) {
      blame(row, Cause::evidence_text_incomplete);
      cite(row, *sign);
      continue;
    }
    if (sign->value > 0) blame(row, Cause::rdma_no_rdma_device);
    blame(row, Cause::rdma_socket_transport);
    cite(row, *sign);
    cite_sockets_setting(text, row);
  }
}

void judge_registrations(TextCase& text) {
  std::map<std::string, const CaptureSign*> host_runs;  // by adapter
  for (const CaptureSign* run : text.all(SignKind::host_memory_run)) {
    if (run->value > 0 && run->word == "host") host_runs.emplace(run->target, run);
  }
  for (const CaptureSign* sign : text.all(SignKind::buffer_registered)) {
    double host = sign->second;
    const CaptureSign* other = nullptr;
    const auto run = host_runs.find(sign->target);
    if (host <= 0 && run != host_runs.end()) {
      other = run->second;
      host = other->value;
    }
    const bool slow = sign->value > 0 && host > 0 && sign->value < 0.75 * host;
    TextRow& row =
        net_row(text, *sign, slow ? Verdict::degraded : Verdict::direct,
                slow ? "GPU memory was registered and used, much slower than host memory "
                       "of the same adapter"
                     : "GPU memory was registered with the adapter, and the transfer has a "
                       "result");
    row.use = true;
    if (other != nullptr) cite(row, *other);
    if (!slow) continue;
    const CaptureSign* level = text.level_of(sign->source, sign->target);
    if (level != nullptr && nearness(level->word) >= 2) {
      blame(row,
            level->word == "SYS" ? Cause::machine_cross_socket : Cause::machine_cross_host_bridge);
      cite(row, *level);
    }
  }
  if (!text.any(SignKind::buffer_registered)) {
    for (const CaptureSign* sign : text.all(SignKind::host_memory_run)) {
      TextRow& row = text.add(
          Member::rdma, Verdict::unknown, sign->target.empty() ? "NIC" : sign->target, "both",
          sign->word == "host" ? "the measurement never touched GPU memory"
          : sign->word == "asked"
              ? "the command line asks for GPU memory, and the lines that show its "
                "allocation are not in the text"
              : "neither the command line is in the text nor what perftest prints of GPU "
                "memory before its table: whether any took part is not known");
      row.target = sign->target;
      row.format = "perftest";
      blame(row,
            sign->word == "host" ? Cause::rdma_host_memory_test : Cause::evidence_text_incomplete);
      cite(row, *sign);
    }
  }
  for (const CaptureSign* sign : text.all(SignKind::registration_failed)) {
    const CaptureSign* window = text.smallest_bar1();
    const bool tight = window != nullptr && sign->word != "gdrcopy" && window->value < 1024 &&
                       sign->value >= 0.9 * window->value * 1048576;
    // What may be locked bounds host memory as well: whose memory it was is not said.
    if (sign->word == "locked" && !tight) {
      TextRow& row = net_row(text, *sign, Verdict::impossible,
                             "memory could not be registered with the adapter (Cannot allocate "
                             "memory), be it a GPU's or the host's");
      row.process.clear();
      blame(row, Cause::rdma_memlock_limit);
      continue;
    }
    const bool any_memory = sign->word == "any memory";
    TextRow& row = net_row(text, *sign, any_memory ? Verdict::unknown : Verdict::impossible,
                           any_memory ? "memory could not be registered with an adapter; the line "
                                        "does not say whether it was a GPU's"
                                      : "GPU memory could not be registered");
    row.process.clear();
    if (sign->word == "dmabuf") blame(row, Cause::rdma_dmabuf_not_supported);
    if (tight) {
      blame(row, Cause::machine_bar1_too_small);
      cite(row, *window);
    }
    blame(row, Cause::rdma_registration_failed);
  }
  for (const CaptureSign* sign : text.all(SignKind::registered_bytes)) {
    // One reading counts since the module was loaded; it tells something only where more was
    // registered than released, which is then registered at that moment.
    const bool once = sign->word == "once";
    const bool moved = sign->value > sign->second && sign->second >= 0;
    const char* reason = "no GPU memory was registered between the two readings";
    if (once)
      reason = sign->value > 0 ? "GPU memory was registered since the module was loaded; nothing "
                                 "shows whether this run's was"
                               : "no GPU memory was registered since the module was loaded";
    if (moved)
      reason = "GPU memory was registered with the RDMA stack through a peer-memory client";
    TextRow& row = text.add(Member::rdma, moved ? Verdict::direct : Verdict::unknown,
                            pair_subject(text, sign->host, "GPU", "NIC"), "both", reason);
    row.use = moved;
    if (!moved)
      blame(row, once && sign->value > 0 ? Cause::evidence_text_incomplete
                                         : Cause::evidence_capability_only);
    cite(row, *sign);
  }
}

void judge_protocols(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::protocol)) {
    const bool local = sign->target == "cuda_ipc" || sign->word == "shared_memory" ||
                       (sign->direction == "intra" && sign->word != "tcp");
    const Member member = local ? Member::p2p : Member::rdma;
    const auto leave = [&](Verdict verdict, const char* reason, std::vector<Cause> causes) {
      CaptureSign named = *sign;
      if (named.source.empty()) named.source = "GPU";
      if (named.target == "cuda_ipc") named.target = "GPU";
      named.direction = named.other.find("get") != std::string::npos ? "read" : "send";
      named.other.clear();
      TextRow& row = net_row(text, named, verdict, reason);
      row.verdict.member = member;
      row.use = verdict == Verdict::direct;
      for (const Cause cause : causes) blame(row, cause);
    };
    if (sign->word == "zero_copy")
      leave(Verdict::direct, "the library's protocol for large sizes copies nothing", {});
    else if (sign->word == "zero_copy_estimated")
      leave(Verdict::unknown,
            "the library supposes that the far side copies nothing: an estimate, (?), which it "
            "prints too where the far side uses bounce buffers",
            {Cause::evidence_text_incomplete});
    else if (sign->word == "emulated_tcp")
      leave(Verdict::staged, "the library emulates the operation in software, over TCP",
            {Cause::rdma_software_emulation, Cause::rdma_socket_transport});
    else if (sign->word == "emulated")
      leave(Verdict::staged, "the library emulates the operation in software",
            {Cause::rdma_software_emulation});
    else if (sign->word == "tcp")
      leave(Verdict::staged, "the library's protocol goes over TCP",
            {Cause::rdma_socket_transport});
    else if (sign->word == "host_fragments" || sign->word == "copied")
      leave(
          Verdict::staged, "the library's protocol copies through host memory",
          {member == Member::p2p ? Cause::p2p_shared_memory_transport : Cause::rdma_host_buffers});
    else if (sign->word == "shared_memory")
      leave(Verdict::staged, "the library's protocol goes through shared memory of the host",
            {Cause::p2p_shared_memory_transport});
    else if (sign->word == "host_memory")
      leave(Verdict::unknown, "the table is for host memory", {Cause::rdma_host_memory_test});
    else
      leave(Verdict::unknown, "the rows that would decide are missing, or estimates",
            {Cause::evidence_text_incomplete});
  }
}

void judge_modules(TextCase& text) {
  std::set<std::string> refused;
  for (const CaptureSign* sign : text.all(SignKind::module_refused)) {
    if (!refused.insert(sign->word).second) continue;
    if (text.decided(Member::rdma)) break;
    TextRow& row = text.add(Member::rdma, Verdict::staged, sign->word, "both",
                            "the module that gives GPU memory to adapters did not load");
    blame(row, Cause::rdma_peermem_load_failed);
    for (const CaptureSign* other : text.all(SignKind::module_refused)) cite(row, *other);
  }
  for (const CaptureSign* sign : text.all(SignKind::transport_skipped)) {
    TextRow& row = text.add(Member::rdma, Verdict::impossible, "GPU-NIC", "both",
                            "the library found no peer-memory module and leaves RDMA out");
    cite(row, *sign);
    blame_registration(text, row, "");
  }
  for (const CaptureSign* sign : text.all(SignKind::port_down)) {
    if (sign->word == "none") {
      TextRow& row = text.add(Member::rdma, Verdict::impossible, "NIC", "both",
                              "no RDMA device is seen where this was asked");
      blame(row, Cause::rdma_no_rdma_device);
      cite(row, *sign);
      continue;
    }
    TextRow& row = text.add(
        Member::rdma, Verdict::impossible, text.name_of_adapter(sign->source), "both",
        sign->word == "waits" ? "the port of this adapter has a link and is not active: no "
                                "subnet manager has set it up"
                              : "the port of this adapter is down");
    blame(row, Cause::rdma_port_down);
    cite(row, *sign);
  }
}

/// What an adapter, a GPU or a library could do.
void judge_abilities(TextCase& text) {
  const auto leave = [&text](const CaptureSign& sign, std::string subject, const char* reason,
                             Cause cause = Cause::evidence_capability_only) {
    TextRow& row =
        text.add(Member::rdma, Verdict::unknown,
                 subject.empty() ? std::string("GPU-NIC") : std::move(subject), "both", reason);
    row.weight = RowWeight::background;
    blame(row, cause);
    cite(row, sign);
  };
  if (text.any(SignKind::net_use)) return;
  std::size_t written = 0;
  for (const SignKind kind :
       {SignKind::gdr_on_adapter, SignKind::gdr_on_distance, SignKind::port_active}) {
    for (const CaptureSign* sign : text.all(kind)) {
      if (++written > 500) return;
      leave(*sign,
            text.name_of_adapter(kind == SignKind::port_active ? sign->source : sign->target),
            kind == SignKind::port_active
                ? "the adapter works on this host; nothing is said of GPU memory"
                : "GPU memory may be given to this adapter; no line shows that it is");
    }
  }
  for (const CaptureSign* sign : text.all(SignKind::gpu_dmabuf)) {
    if (++written > 500) return;
    leave(*sign, sign->source, "the GPU can export its memory; no line shows that it does");
  }
  if (const CaptureSign* sign = text.first(SignKind::adapters_chosen))
    leave(*sign, "", "the library found RDMA adapters; no line shows how bytes travel");
  for (const CaptureSign* sign : text.all(SignKind::graph_shown)) {
    if (!sign->word.empty()) continue;
    leave(*sign, "", "the machine as the library sees it; no line shows how bytes travel");
    break;
  }
  for (const char* name : {"nvidia_peermem", "nv_peer_mem"}) {
    const CaptureSign* sign = text.module_loaded(name);
    if (sign != nullptr)
      leave(*sign, name, "the module is loaded, which shows neither use nor refusal");
  }
}

}  // namespace

void judge_text_rdma(TextCase& text) {
  NetContext context;
  judge_use(text, context);
  judge_registrations(text);
  judge_errors(text);
  judge_unreached(text);
  judge_timeouts(text);
  judge_library_refusals(text, context);
  judge_protocols(text);
  judge_modules(text);
  judge_abilities(text);
}

}  // namespace nobounce::judge
