// Summaries, details, exit codes and examples of the commands.
#include "cli/command_texts.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace nobounce::cli {

namespace {

const std::vector<ExitDescription>& row_exits() {
  static const std::vector<ExitDescription> exits = {
      {"0", "every row is direct"},
      {"1", "a row is broken or impossible, or an error"},
      {"2", "the command line is wrong"},
      {"3", "a row is unmet, staged or degraded"},
      {"4", "a row is unknown"}};
  return exits;
}

CommandDescription program() {
  return {.name = "",
          .synopsis = "COMMAND [OPTIONS]",
          .summary = "move data between GPU memory and files, and tell how the bytes travelled",
          .details =
              "Bytes travel directly, or staged through host memory; nobounce says which, and why, "
              "in a receipt. It never falls back in silence.\n\n"
              "Without a GPU the same commands run on a software machine: add --machine "
              "soft:workstation.",
          .positionals = {},
          .options = {},
          .exits = {{"0", "done"},
                    {"1", "error"},
                    {"2", "the command line is wrong"},
                    {"3", "refused by policy; check, prove and explain: unmet, staged or degraded"},
                    {"4", "check, prove and explain: unknown"},
                    {"128 + N", "ended by signal N"}},
          .examples = {{"nobounce check", "what a direct path needs, and what is missing here"},
                       {"nobounce copy model.bin gpu:0", "a file into GPU memory, with a receipt"},
                       {"nobounce prove", "what travels directly, with evidence"},
                       {"nobounce topo --machine soft:workstation",
                        "the same program on a software machine, without a GPU"}}};
}

CommandDescription topo() {
  return {
      .name = "topo",
      .synopsis = "topo [OPTIONS]",
      .summary = "show the machine: its tree, how far devices are apart, best partners",
      .details =
          "Reads the machine and changes nothing. The JSON document is a machine "
          "description that --machine soft:PATH reads. With --from, what a text shows: how far "
          "devices are apart, and the tree where the text has one.",
      .positionals = {},
      .options = {},
      .exits = {{"0", "the machine was read"}, {"1", "error"}, {"2", "the command line is wrong"}},
      .examples = {{"nobounce topo", "this machine"},
                   {"nobounce topo --machine soft:dgx", "a machine with eight GPUs"},
                   {"nvidia-smi topo -m | nobounce topo --from -", "what a text shows"},
                   {"nobounce topo --json > machine.json",
                    "edit it, then: nobounce check --machine soft:machine.json"}}};
}

CommandDescription check() {
  return {.name = "check",
          .synopsis = "check [OPTIONS]",
          .summary = "say what a direct path needs, pair by pair, and what is missing",
          .details =
              "Rows: every GPU with every mount on a drive, reads and writes; each GPU with its "
              "best partner, and one pair of GPUs per level of distance; each GPU with its nearest "
              "network adapters. What is unmet comes with what was "
              "observed and how to mend it. Notes follow on what concerns the whole machine: the "
              "configuration of libcufile that is in force and what in it stages, what a library "
              "sees otherwise, and what could not be read. Nothing is moved or changed.\n\n"
              "A capability proves nothing: prove shows how bytes really travel.",
          .positionals = {},
          .options = {},
          .exits = row_exits(),
          .examples = {{"nobounce check", "every pair of this machine"},
                       {"nobounce check --path /data/model.bin --gpu 0", "one file and one GPU"},
                       {"nobounce check --pair gpu:0,gpu:1", "one pair of GPUs, in this order"},
                       {"nobounce check --machine soft:workstation --set /modules/nvidia_fs=false",
                        "what if that module were not loaded"}}};
}

CommandDescription copy() {
  return {
      .name = "copy",
      .synopsis = "copy PLACE PLACE [PLACE ...] [OPTIONS]",
      .summary = "move bytes from place to place, with one receipt per hop",
      .details =
          "A place is a file (PATH or file:PATH), GPU memory (gpu:N, gpu:UUID or gpu:BDF), host "
          "memory (host) or what another process serves (rdma://HOST:PORT/NAME). Three places make "
          "two hops. A GPU or host in first place holds a seeded "
          "pattern of --length bytes.\n\n"
          "Source and target are compared by checksum after each hop, outside its receipt. A file "
          "appears whole or not at all, unless --in-place.",
      .positionals = {},
      .options = {},
      .exits = {{"0", "done as the policy allows"},
                {"1", "error"},
                {"2", "the command line is wrong"},
                {"3", "refused by policy; the receipt of no bytes is printed all the same"},
                {"128 + N", "ended by signal N"}},
      .examples = {{"nobounce copy model.bin gpu:0", "a file into the memory of GPU 0"},
                   {"nobounce copy model.bin gpu:0 copy.bin --durable",
                    "through GPU memory into another file, safe from a power cut"},
                   {"nobounce copy gpu:0 dump.bin --length 1GiB --policy direct_required",
                    "directly, or not at all"},
                   {"nobounce copy rdma://127.0.0.1:4711/weights gpu:1",
                    "what nobounce serve offers there, into the memory of GPU 1"},
                   {"nobounce copy model.bin gpu:0 --machine soft:workstation --ledger",
                    "on a software machine, beside what its bus carried"}}};
}

CommandDescription prove() {
  return {.name = "prove",
          .synopsis = "prove [OPTIONS]",
          .summary = "move bytes beside control runs: a verdict per pair and direction",
          .details =
              "Each row moves bytes several times, beside a control that is made to stage, and "
              "asks counters that the mover does not own. Storage rows write a scratch file and "
              "remove it. By default: each GPU with its best partner, and one pair of GPUs per "
              "level of distance.",
          .positionals = {},
          .options = {},
          .exits = {{"0", "every row is direct"},
                    {"1", "a row is broken or impossible, or an error"},
                    {"2", "the command line is wrong"},
                    {"3", "a row is unmet, staged or degraded"},
                    {"4", "a row is unknown, or one of --against is not there any more"}},
          .examples = {
              {"nobounce prove", "this machine"},
              {"nobounce prove --pair gpu:0,gpu:1 --pair drive:nvme0n1,gpu:0 --path /data",
               "two pairs, scratch files in /data"},
              {"nobounce prove --peer 127.0.0.1:4711", "what nobounce serve offers there"},
              {"nobounce prove --save good.json", "keep the proof"},
              {"nobounce prove --against good.json", "later: what changed since"},
              {"nobounce prove --machine soft:workstation", "the same on a software machine"}}};
}

CommandDescription serve() {
  return {.name = "serve",
          .synopsis = "serve --place PLACE --name NAME [OPTIONS]",
          .summary = "offer memory to other processes, and tell what they did with it",
          .details =
              "Clients read the memory, and with --access write change it, by their own network "
              "adapters where both sides can, else through host memory, and both sides say so. "
              "What a transfer did is what the client reports: its receipt is claimed.\n\n"
              "Both sides must know the same token, which never travels. Without one, other "
              "processes of the same user on this machine find each other. Payload is not "
              "encrypted.\n\n"
              "Prints an event per line until SIGINT or SIGTERM, with --json as nobounce.event/1.",
          .positionals = {},
          .options = {},
          .exits = {{"0", "ended by a signal, or with --once: all transfers were done"},
                    {"1", "error; with --once: a transfer failed, or its client vanished"},
                    {"2", "the command line is wrong"},
                    {"3", "with --once: the client's policy refused a transfer"}},
          .examples = {{"nobounce serve --place gpu:0 --length 1GiB --name weights",
                        "to processes of this user on this machine; the port is printed"},
                       {"nobounce serve --place gpu:0 --name kv --access write --listen "
                        "10.0.0.1:4711 --token-file token",
                        "to whoever knows the token, for reading and writing"},
                       {"nobounce serve --place gpu:0 --name weights --machine soft:workstation "
                        "--once",
                        "on a software machine, to one client"}}};
}

CommandDescription record() {
  return {
      .name = "record",
      .synopsis = "record [-o FILE] [OPTIONS]",
      .summary = "write down this machine, without names, addresses and serial numbers",
      .details =
          "One JSON file that a person can read before sending it: the files that check and topo "
          "read, what the driver answered, settings, versions and counters. Host and user names, "
          "IP and MAC addresses, GUIDs, serial numbers, UUIDs and own words in mount points that "
          "are recognised are replaced, the same by the same; nobody knows all names, so read it. "
          "It works without root, and says less then.\n\n"
          "--machine recorded:FILE judges it elsewhere; --machine soft:FILE is a software machine "
          "like it.",
      .positionals = {},
      .options = {},
      .exits = {{"0", "written"}, {"1", "error"}, {"2", "the command line is wrong"}},
      .examples = {{"nobounce record -o node.json", "this machine"},
                   {"nobounce record --list", "what would be taken"},
                   {"nobounce check --machine recorded:node.json", "judge it, anywhere"},
                   {"nobounce prove --machine soft:node.json", "prove on its software twin"}}};
}

CommandDescription diff() {
  return {
      .name = "diff",
      .synopsis = "diff A B [OPTIONS]",
      .summary = "say what differs between two machines, or two times, worst first",
      .details =
          "A and B are recordings, live, or software machines (soft:NAME). First come devices that "
          "one lacks and pairs that travel otherwise, then preconditions that differ, then what "
          "may explain a difference "
          "in speed, then the rest.",
      .positionals = {},
      .options = {},
      .exits = {{"0", "nothing differs that can matter to how bytes travel"},
                {"1", "error"},
                {"2", "the command line is wrong"},
                {"3", "something differs that can matter"}},
      .examples = {{"nobounce diff good.json bad.json", "a good node and a bad one"},
                   {"nobounce diff yesterday.json live", "what changed since"}}};
}

CommandDescription stat() {
  return {.name = "stat",
          .synopsis = "stat [PID] [OPTIONS]",
          .summary = "show what the running sessions of this user have moved, and how",
          .details =
              "Bytes are added as they arrive. A session that ended is gone; one that was "
              "killed is shown once more, as not alive.",
          .positionals = {},
          .options = {},
          .exits = {{"0", "shown, also where there is no session"},
                    {"1", "error; with PID: that process publishes no session"},
                    {"2", "the command line is wrong"}},
          .examples = {{"nobounce stat", "all sessions"},
                       {"nobounce stat 4711 --json", "those of one process, as JSON"},
                       {"nobounce stat --prometheus > nobounce.prom",
                        "for the text file collector of Prometheus's node exporter"}}};
}

CommandDescription explain() {
  return {
      .name = "explain",
      .synopsis = "explain FILE... | - | CAUSE-ID | --list",
      .summary = "say what captured output of other tools shows, line by line",
      .details =
          "Reads output of nvidia-smi, NCCL, RCCL, UCX, NVSHMEM, gdscheck, cuFile, nvidia-fs, "
          "lspci, dmesg, perftest and others, whole, in part or within other text. All files are "
          "of one machine. For each pair and direction: direct, staged, degraded, impossible, "
          "broken or unknown, why, the line that says so, and what to do.\n\n"
          "A capability proves nothing: what shows no transfer is unknown, with what would "
          "decide it. A cause id prints that cause's page.",
      .positionals = {},
      .options = {},
      .exits = {{"0", "every verdict is direct; or a page or the list was printed"},
                {"1", "a verdict is broken or impossible, or an error"},
                {"2", "the command line is wrong"},
                {"3", "a verdict is staged or degraded"},
                {"4", "a verdict is unknown, or nothing was recognised"}},
      .examples = {{"nobounce explain nccl.log topo.txt", "two texts of one machine, together"},
                   {"nvidia-smi topo -m | nobounce explain -", "from another program"},
                   {"nobounce explain rdma.host_buffers", "the page of a cause"},
                   {"nobounce explain --list", "all causes"}}};
}

}  // namespace

std::span<const CommandDescription> command_texts() {
  static const std::vector<CommandDescription> texts = {
      program(), topo(), check(), copy(), prove(), serve(), stat(), explain(), record(), diff()};
  return texts;
}

const CommandDescription& texts_of(std::string_view command) {
  const std::span<const CommandDescription> texts = command_texts();
  const auto found = std::find_if(texts.begin(), texts.end(), [&](const CommandDescription& text) {
    return text.name == command;
  });
  if (found == texts.end()) {
    std::fputs("nobounce: a command has no words in command_texts\n", stderr);
    std::abort();
  }
  return *found;
}

}  // namespace nobounce::cli
