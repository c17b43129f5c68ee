// The status codes that a drive answers to what we ask of it.
#include "provider/nvme/status.hpp"

#include <array>
#include <utility>

namespace nobounce::provider::nvme {

namespace code = system::nvme::code;

std::string status_text(const system::nvme::Completion& completion) {
  static constexpr auto words = std::to_array<std::pair<std::uint16_t, std::string_view>>({
      {code::success, "success"},
      {code::invalid_opcode, "invalid command opcode"},
      {code::invalid_field, "invalid field in command"},
      {code::data_transfer_error, "data transfer error"},
      {code::internal_error, "internal error"},
      {code::abort_requested, "command abort requested"},
      {code::queue_deleted, "aborted because its queue was deleted"},
      {code::invalid_namespace, "invalid namespace or format"},
      {code::invalid_prp_offset, "invalid PRP offset"},
      {code::lba_out_of_range, "LBA out of range"},
      {code::invalid_completion_queue, "invalid completion queue"},
      {code::invalid_queue_identifier, "invalid queue identifier"},
      {code::invalid_queue_size, "invalid queue size"},
      {code::write_fault, "write fault"},
      {code::unrecovered_read_error, "unrecovered read error"},
  });
  const std::uint16_t status = completion.code();
  const std::string numbers = "status type " + std::to_string(status >> 8) + ", code " +
                              std::to_string(status & 0xff) +
                              (completion.do_not_retry() ? ", do not retry" : "");
  for (const auto& [known, text] : words) {
    if (known == status) return std::string(text) + " (" + numbers + ")";
  }
  return numbers;
}

Error command_error(std::string attempted, const system::nvme::Completion& completion) {
  return Error{.origin = ErrorOrigin::nvme,
               .code = completion.code(),
               .attempted = std::move(attempted),
               .cause = Cause::nvme_command_failed,
               .detail = status_text(completion)};
}

}  // namespace nobounce::provider::nvme
