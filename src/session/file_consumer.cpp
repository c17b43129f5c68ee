// Reads of kernels, from an open file.
#include "session/file_consumer.hpp"

namespace nobounce::session {

namespace {

class FileConsumer final : public core::KernelConsumer {
 public:
  FileConsumer(system::Storage& storage, system::FileHandle handle, const FileRange& file)
      : storage_(storage), handle_(handle), file_(file) {}

  core::KernelAnswer carry_out(const device::Request& request, std::byte* buffer,
                               std::uint64_t buffer_bytes) override {
    if (request.operation != device::Operation::read) return {device::code_bad_operation, 0, 0};
    const std::uint64_t length = request.length_bytes;
    if (length == 0 || length > buffer_bytes || length > file_.length_bytes ||
        request.offset_bytes > file_.length_bytes - length) {
      return {device::code_bad_range, 0, 0};
    }
    core::KernelAnswer answer;
    while (answer.arrived_bytes < length) {
      const auto got =
          storage_.read(handle_, buffer + answer.arrived_bytes, length - answer.arrived_bytes,
                        file_.offset.plus(request.offset_bytes + answer.arrived_bytes));
      ++answer.system_calls;
      if (!got.ok()) {
        const auto number = static_cast<std::uint64_t>(got.error().code) & 0xfff;
        answer.code = static_cast<std::uint16_t>(device::code_os | number);
        return answer;
      }
      if (*got == 0) {
        answer.code = device::code_short;
        return answer;
      }
      answer.arrived_bytes += *got;
    }
    return answer;
  }

 private:
  system::Storage& storage_;
  const system::FileHandle handle_;
  const FileRange file_;
};

}  // namespace

Result<std::unique_ptr<core::KernelConsumer>> make_file_consumer(SessionState& state,
                                                                 const FileRange& file) {
  const FileEntry* entry = state.files.entry(file.file);
  if (entry == nullptr || file.offset.value > entry->length_bytes ||
      file.length_bytes > entry->length_bytes - file.offset.value) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "let kernels read a file",
                 .detail = "it is not open in this session, or shorter than that",
                 .remedy = "File::place() of an open file"};
  }
  return std::unique_ptr<core::KernelConsumer>(
      std::make_unique<FileConsumer>(state.host.storage(), entry->open.buffered, file));
}

}  // namespace nobounce::session
