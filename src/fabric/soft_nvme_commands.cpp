// The soft NVMe controller: what its commands do.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "fabric/soft_nvme.hpp"

namespace nobounce::fabric {

namespace nvme = system::nvme;
namespace code = system::nvme::code;

namespace {

using Page = std::array<std::byte, SoftNvme::page_bytes>;

template <typename T>
void put(Page& page, std::size_t at, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  std::copy(bytes.begin(), bytes.end(), page.begin() + static_cast<std::ptrdiff_t>(at));
}

void put_text(Page& page, std::size_t at, std::size_t width, std::string_view text) {
  for (std::size_t i = 0; i < width; ++i) {
    page[at + i] = static_cast<std::byte>(i < text.size() ? text[i] : ' ');
  }
}

std::uint8_t shift_of(std::uint32_t block_bytes) {
  std::uint8_t shift = 0;
  while ((1u << shift) < block_bytes) ++shift;
  return shift;
}

}  // namespace

SoftNvme::Ended SoftNvme::execute(const Fetched& fetched) {
  return fetched.queue == 0 ? admin(fetched.command) : input_output(fetched.command);
}

SoftNvme::Ended SoftNvme::admin(const Command& command) {
  switch (static_cast<nvme::AdminOpcode>(command.opcode)) {
    case nvme::AdminOpcode::identify:
      return identify(command);
    case nvme::AdminOpcode::create_completion_queue:
      return create_completion(command);
    case nvme::AdminOpcode::create_submission_queue:
      return create_submission(command);
    case nvme::AdminOpcode::delete_submission_queue:
    case nvme::AdminOpcode::delete_completion_queue:
      return remove_queue(command);
    case nvme::AdminOpcode::abort:
      return abort(command);
    case nvme::AdminOpcode::set_features:
      if ((command.dword10 & 0xff) != nvme::feature_number_of_queues) break;
      return {code::success, (queues_max - 2) | (queues_max - 2) << 16, false};
  }
  return {code::invalid_opcode, 0, true};
}

SoftNvme::Ended SoftNvme::identify(const Command& command) {
  Page page{};
  switch (command.dword10 & 0xff) {
    case nvme::identify_controller::structure:
      put_text(page, nvme::identify_controller::serial, 20, "0");
      put_text(page, nvme::identify_controller::model, 40, "software drive");
      put<std::uint8_t>(page, nvme::identify_controller::transfer_max,
                        static_cast<std::uint8_t>(shape_.transfer_shift));
      put<std::uint8_t>(page, nvme::identify_controller::submission_entry, 0x66);
      put<std::uint8_t>(page, nvme::identify_controller::completion_entry, 0x44);
      put<std::uint32_t>(page, nvme::identify_controller::name_spaces, 1);
      put<std::uint8_t>(page, nvme::identify_controller::volatile_cache, 1);
      break;
    case nvme::identify_namespace::active_list:
      put<std::uint32_t>(page, 0, 1);
      break;
    case nvme::identify_namespace::structure:
      if (command.name_space != 1) return {code::invalid_namespace, 0, true};
      put<std::uint64_t>(page, nvme::identify_namespace::blocks,
                         shape_.length_bytes / shape_.block_bytes);
      put<std::uint8_t>(page, nvme::identify_namespace::formats + 2, shift_of(shape_.block_bytes));
      break;
    default:
      return {code::invalid_field, 0, true};
  }
  std::uint16_t why = code::success;
  const auto runs = walk(command, page_bytes, why);
  if (!runs.has_value()) return {why, 0, true};
  std::size_t done = 0;
  for (const Run& run : *runs) {
    (void)bus_.device_store(shape_.drive, std::span(page).subspan(done, run.length_bytes),
                            run.address);
    done += run.length_bytes;
  }
  return {};
}

SoftNvme::Ended SoftNvme::create_completion(const Command& command) {
  const std::uint32_t id = command.dword10 & 0xffff;
  const std::uint32_t entries = (command.dword10 >> 16) + 1;
  if (id == 0 || id >= queues_max || completions_[id].exists)
    return {code::invalid_queue_identifier, 0, true};
  if (entries < 2 || entries > shape_.queue_entries_max) return {code::invalid_queue_size, 0, true};
  if (command.prp1 % page_bytes != 0) return {code::invalid_prp_offset, 0, true};
  if ((command.dword11 & 1) == 0) return {code::invalid_field, 0, true};
  completions_[id] = {true, BusAddress{command.prp1}, entries, 0, 0, true};
  return {};
}

SoftNvme::Ended SoftNvme::create_submission(const Command& command) {
  const std::uint32_t id = command.dword10 & 0xffff;
  const std::uint32_t entries = (command.dword10 >> 16) + 1;
  const std::uint32_t completion = command.dword11 >> 16;
  if (id == 0 || id >= queues_max || submissions_[id].exists)
    return {code::invalid_queue_identifier, 0, true};
  if (completion == 0 || completion >= queues_max || !completions_[completion].exists)
    return {code::invalid_completion_queue, 0, true};
  if (entries < 2 || entries > shape_.queue_entries_max) return {code::invalid_queue_size, 0, true};
  if (command.prp1 % page_bytes != 0) return {code::invalid_prp_offset, 0, true};
  if ((command.dword11 & 1) == 0) return {code::invalid_field, 0, true};
  submissions_[id] = {
      true, BusAddress{command.prp1}, entries, 0, 0, static_cast<std::uint16_t>(completion)};
  return {};
}

SoftNvme::Ended SoftNvme::remove_queue(const Command& command) {
  const std::uint32_t id = command.dword10 & 0xffff;
  if (id == 0 || id >= queues_max) return {code::invalid_queue_identifier, 0, true};
  if (static_cast<nvme::AdminOpcode>(command.opcode) ==
      nvme::AdminOpcode::delete_completion_queue) {
    if (!completions_[id].exists) return {code::invalid_queue_identifier, 0, true};
    const bool used = std::any_of(submissions_.begin(), submissions_.end(), [&](const auto& queue) {
      return queue.exists && queue.completion == id;
    });
    if (used) return {0x10c, 0, true};  // invalid queue deletion
    completions_[id] = {};
    return {};
  }
  if (!submissions_[id].exists) return {code::invalid_queue_identifier, 0, true};
  submissions_[id] = {};
  // What was fetched of it is dropped without an answer: a driver drains first.
  std::erase_if(fetched_, [&](const Fetched& fetched) { return fetched.queue == id; });
  return {};
}

SoftNvme::Ended SoftNvme::abort(const Command& command) {
  const std::uint32_t queue = command.dword10 & 0xffff;
  const std::uint32_t id = command.dword10 >> 16;
  const auto found = std::find_if(fetched_.begin(), fetched_.end(), [&](const Fetched& fetched) {
    return fetched.queue == queue && fetched.command.id == id;
  });
  if (found == fetched_.end() || !can_post(found->queue)) return {code::success, 1, false};
  const Fetched fetched = *found;
  fetched_.erase(found);
  post(fetched, {code::abort_requested, 0, false});
  return {};
}

std::optional<std::vector<SoftNvme::Run>> SoftNvme::walk(const Command& command,
                                                         std::uint64_t length, std::uint16_t& why) {
  std::vector<Run> runs;
  const auto add = [&](std::uint64_t address, std::uint64_t bytes) {
    if (!runs.empty() && runs.back().address.value + runs.back().length_bytes == address) {
      runs.back().length_bytes += bytes;
    } else {
      runs.push_back({BusAddress{address}, bytes});
    }
    length -= bytes;
  };
  why = code::invalid_prp_offset;
  if (command.prp1 % 4 != 0) return std::nullopt;
  add(command.prp1, std::min(length, page_bytes - command.prp1 % page_bytes));
  if (length == 0) return runs;
  if (length <= page_bytes) {
    if (command.prp2 % page_bytes != 0) return std::nullopt;
    const bool skipped = bus_.planted(Mutant::nvme_second_page_lost);
    add(skipped ? command.prp1 - command.prp1 % page_bytes : command.prp2, length);
    return runs;
  }
  if (command.prp2 % 8 != 0) return std::nullopt;
  std::uint64_t list = command.prp2;
  while (length > 0) {
    std::uint64_t entry = 0;
    const Carried carried = bus_.device_load(shape_.drive, BusAddress{list},
                                             std::as_writable_bytes(std::span(&entry, 1)));
    if (!carried.ok()) {
      why = code::data_transfer_error;
      return std::nullopt;
    }
    const bool last_slot = list % page_bytes == page_bytes - 8;
    const bool chains = last_slot && length > page_bytes;
    if (entry % (chains ? 8 : page_bytes) != 0) return std::nullopt;
    if (chains) {
      list = entry;
      continue;
    }
    add(entry, std::min(length, page_bytes));
    list += 8;
  }
  return runs;
}

SoftNvme::Ended SoftNvme::move(const std::vector<Run>& runs, FileOffset offset, bool reading) {
  const Initiator initiator{Initiator::Kind::drive, shape_.drive};
  const BusAddress own = bus_.registers_of(shape_.drive);
  for (const Run& run : runs) {
    // Its own registers are not memory to it.
    if (run.address.value < own.value + Bus::registers_bytes &&
        run.address.value + run.length_bytes > own.value) {
      return {code::data_transfer_error, 0, true};
    }
    const End file = End::of(shape_.medium, offset);
    const End memory = End::at(run.address);
    const Carried carried = reading ? bus_.dma(initiator, file, memory, run.length_bytes)
                                    : bus_.dma(initiator, memory, file, run.length_bytes);
    switch (carried.outcome) {
      case BusOutcome::done:
        break;
      case BusOutcome::lost:
      case BusOutcome::bad_address:
        // A write is posted: nobody tells the drive that it went nowhere. A read gets no answer.
        if (!reading) return {code::data_transfer_error, 0, false};
        break;
      case BusOutcome::faulted:
        return {code::data_transfer_error, 0, false};
      case BusOutcome::io_error:
        return {reading ? code::unrecovered_read_error : code::write_fault, 0, false};
    }
    offset = offset.plus(run.length_bytes);
  }
  return {};
}

SoftNvme::Ended SoftNvme::input_output(const Command& command) {
  const auto opcode = static_cast<nvme::Opcode>(command.opcode);
  if (command.name_space != 1) return {code::invalid_namespace, 0, true};
  if (opcode == nvme::Opcode::flush) return {};
  if (opcode != nvme::Opcode::read && opcode != nvme::Opcode::write)
    return {code::invalid_opcode, 0, true};
  const bool reading = opcode == nvme::Opcode::read;
  std::uint64_t block = command.dword10 | std::uint64_t{command.dword11} << 32;
  const std::uint64_t blocks = (command.dword12 & 0xffff) + 1;
  const std::uint64_t length = blocks * shape_.block_bytes;
  if (shape_.transfer_shift != 0 && length > page_bytes << shape_.transfer_shift)
    return {code::invalid_field, 0, true};
  const std::uint64_t all = shape_.length_bytes / shape_.block_bytes;
  if (block >= all || blocks > all - block) return {code::lba_out_of_range, 0, true};
  if (bus_.planted(Mutant::nvme_wrong_block)) block ^= 1;
  if (random_.chance(reading ? faults_.read_error : faults_.write_error))
    return {reading ? code::unrecovered_read_error : code::write_fault, 0, false};
  if (random_.chance(faults_.nvme_transfer_error)) return {code::data_transfer_error, 0, false};
  std::uint16_t why = code::success;
  const auto runs = walk(command, length, why);
  if (!runs.has_value()) return {why, 0, why != code::data_transfer_error};
  return move(*runs, FileOffset{block * shape_.block_bytes}, reading);
}

}  // namespace nobounce::fabric
