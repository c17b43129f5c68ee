// Files registered with cuFile.
#include "provider/storage/file_handles.hpp"

#include <utility>

#include "provider/storage/cufile_errors.hpp"

namespace nobounce::provider::storage {

using system::cufile::CUfileHandle_t;

Result<CUfileHandle_t> FileHandles::find(const system::OpenFile& file) {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(file.id);
  if (at != handles_.end()) return at->second;
  return handles_.emplace(file.id, register_now(file)).first->second;
}

Result<CUfileHandle_t> FileHandles::register_now(const system::OpenFile& file) {
  const Result<system::Cufile*> cufile = driver_.open();
  if (!cufile.ok()) return cufile.error();
  const std::string attempted = "register " + file.path + " with cuFile (cuFileHandleRegister)";
  if (!file.direct.valid()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .cause = Cause::storage_direct_io_refused,
                 .detail = "the file could not be opened with O_DIRECT"};
  }
  system::cufile::CUfileDescr_t description{};
  description.type = system::cufile::handle_type_opaque_fd;
  description.handle.fd = file.direct.descriptor;
  CUfileHandle_t handle = nullptr;
  const int code = (*cufile)->handle_register(&handle, &description).err;
  if (code != system::cufile::success) {
    Error error = error_of_code(code, attempted, Cause::storage_cufile_refused);
    if (driver_.module_vanished()) error.cause = Cause::storage_module_vanished;
    return error;
  }
  return handle;
}

std::optional<Status> FileHandles::known(std::uint32_t file) const {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(file);
  if (at == handles_.end()) return std::nullopt;
  return at->second.ok() ? Status{} : Status{at->second.error()};
}

unsigned FileHandles::standing(std::uint32_t file) const {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(file);
  return at == handles_.end() ? 0u : at->second.ok() ? 1u : 2u;
}

void FileHandles::undo(const Result<CUfileHandle_t>& handle) {
  if (!handle.ok()) return;
  const Result<system::Cufile*> cufile = driver_.open();
  if (cufile.ok()) (*cufile)->handle_deregister(*handle);
}

void FileHandles::forget(std::uint32_t file) {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(file);
  if (at == handles_.end()) return;
  undo(at->second);
  handles_.erase(at);
}

void FileHandles::release() {
  const std::lock_guard lock(mutex_);
  for (const auto& [file, handle] : handles_) undo(handle);
  handles_.clear();
}

}  // namespace nobounce::provider::storage
