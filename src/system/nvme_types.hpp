// NVMe as its specification lays it out: registers, queue entries, opcodes and status codes.
#pragma once

#include <cstdint>
#include <type_traits>

namespace nobounce::system::nvme {

/// Registers in BAR0.
namespace reg {
inline constexpr std::uint64_t capabilities = 0x00;
inline constexpr std::uint64_t version = 0x08;
inline constexpr std::uint64_t configuration = 0x14;
inline constexpr std::uint64_t status = 0x1c;
inline constexpr std::uint64_t admin_queue_attributes = 0x24;
inline constexpr std::uint64_t admin_submission_queue = 0x28;
inline constexpr std::uint64_t admin_completion_queue = 0x30;
inline constexpr std::uint64_t buffer_location = 0x38;
inline constexpr std::uint64_t buffer_size = 0x3c;
inline constexpr std::uint64_t buffer_control = 0x50;
inline constexpr std::uint64_t doorbells = 0x1000;
}  // namespace reg

/// The controller's capabilities, taken apart.
struct Capabilities {
  std::uint64_t value = 0;
  [[nodiscard]] std::uint32_t entries_max() const {
    return static_cast<std::uint32_t>(value & 0xffff) + 1;
  }
  /// How long it may take to become ready, or not.
  [[nodiscard]] std::uint64_t timeout_ns() const { return ((value >> 24) & 0xff) * 500'000'000; }
  [[nodiscard]] std::uint64_t doorbell_stride_bytes() const {
    return std::uint64_t{4} << ((value >> 32) & 15);
  }
  [[nodiscard]] bool all_command_sets() const { return ((value >> 37) & 0x40) != 0; }
  [[nodiscard]] std::uint64_t page_bytes_min() const {
    return std::uint64_t{4096} << ((value >> 48) & 15);
  }
  [[nodiscard]] std::uint64_t page_bytes_max() const {
    return std::uint64_t{4096} << ((value >> 52) & 15);
  }
};

namespace cc {
inline constexpr std::uint32_t enable = 1;
inline constexpr std::uint32_t all_command_sets = 6u << 4;
inline constexpr std::uint32_t shutdown_normal = 1u << 14;
inline constexpr std::uint32_t submission_entry_64 = 6u << 16;
inline constexpr std::uint32_t completion_entry_16 = 4u << 20;
}  // namespace cc

namespace csts {
inline constexpr std::uint32_t ready = 1;
inline constexpr std::uint32_t fatal = 2;
inline constexpr std::uint32_t shutdown_mask = 3u << 2;
inline constexpr std::uint32_t shutdown_complete = 2u << 2;
}  // namespace csts

enum class AdminOpcode : std::uint8_t {
  delete_submission_queue = 0x00,
  create_submission_queue = 0x01,
  delete_completion_queue = 0x04,
  create_completion_queue = 0x05,
  identify = 0x06,
  abort = 0x08,
  set_features = 0x09,
};

enum class Opcode : std::uint8_t { flush = 0x00, write = 0x01, read = 0x02 };

/// A submission queue entry.
struct Command {
  std::uint8_t opcode = 0;
  std::uint8_t flags = 0;
  std::uint16_t id = 0;
  std::uint32_t name_space = 0;
  std::uint64_t reserved = 0;
  std::uint64_t metadata = 0;
  std::uint64_t prp1 = 0;
  std::uint64_t prp2 = 0;
  std::uint32_t dword10 = 0;
  std::uint32_t dword11 = 0;
  std::uint32_t dword12 = 0;
  std::uint32_t dword13 = 0;
  std::uint32_t dword14 = 0;
  std::uint32_t dword15 = 0;
};
static_assert(sizeof(Command) == 64 && std::is_trivially_copyable_v<Command>);

/// A completion queue entry. `status` is the phase in bit 0 and the status field above it.
struct Completion {
  std::uint32_t result = 0;
  std::uint32_t reserved = 0;
  std::uint16_t submission_head = 0;
  std::uint16_t submission_queue = 0;
  std::uint16_t id = 0;
  std::uint16_t status = 0;
  [[nodiscard]] bool phase() const { return (status & 1) != 0; }
  /// Type and code, without the phase, More and Do Not Retry.
  [[nodiscard]] std::uint16_t code() const { return (status >> 1) & 0x7ff; }
  [[nodiscard]] bool do_not_retry() const { return (status & 0x8000) != 0; }
};
static_assert(sizeof(Completion) == 16 && std::is_trivially_copyable_v<Completion>);

/// Status type and code in one: type << 8 | code.
namespace code {
inline constexpr std::uint16_t success = 0x000;
inline constexpr std::uint16_t invalid_opcode = 0x001;
inline constexpr std::uint16_t invalid_field = 0x002;
inline constexpr std::uint16_t data_transfer_error = 0x004;
inline constexpr std::uint16_t internal_error = 0x006;
inline constexpr std::uint16_t abort_requested = 0x007;
inline constexpr std::uint16_t queue_deleted = 0x008;
inline constexpr std::uint16_t invalid_namespace = 0x00b;
inline constexpr std::uint16_t invalid_prp_offset = 0x013;
inline constexpr std::uint16_t lba_out_of_range = 0x080;
inline constexpr std::uint16_t invalid_completion_queue = 0x100;
inline constexpr std::uint16_t invalid_queue_identifier = 0x101;
inline constexpr std::uint16_t invalid_queue_size = 0x102;
inline constexpr std::uint16_t write_fault = 0x280;
inline constexpr std::uint16_t unrecovered_read_error = 0x281;
}  // namespace code

/// What Identify Controller answers: offsets into its 4096 bytes.
namespace identify_controller {
inline constexpr std::size_t serial = 4;  ///< 20 characters
inline constexpr std::size_t model = 24;  ///< 40 characters
inline constexpr std::size_t transfer_max = 77;
inline constexpr std::size_t submission_entry = 512;
inline constexpr std::size_t completion_entry = 513;
inline constexpr std::size_t name_spaces = 516;
inline constexpr std::size_t volatile_cache = 525;
inline constexpr std::uint32_t structure = 1;
}  // namespace identify_controller

/// Of Identify Namespace.
namespace identify_namespace {
inline constexpr std::size_t blocks = 0;
inline constexpr std::size_t format_used = 26;
inline constexpr std::size_t formats = 128;  ///< 4 bytes each
inline constexpr std::uint32_t structure = 0;
inline constexpr std::uint32_t active_list = 2;
}  // namespace identify_namespace

inline constexpr std::uint32_t feature_number_of_queues = 7;
inline constexpr std::size_t identify_bytes = 4096;

}  // namespace nobounce::system::nvme
