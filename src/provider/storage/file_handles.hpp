// Files registered with cuFile: once per open file, on first use; refusals remembered.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include <nobounce/result.hpp>

#include "provider/storage/cufile_driver.hpp"
#include "system/open_files.hpp"

namespace nobounce::provider::storage {

/// Thread-safe.
class FileHandles {
 public:
  explicit FileHandles(CufileDriver& driver) : driver_(driver) {}

  /// cuFile's handle for the file's O_DIRECT descriptor.
  [[nodiscard]] Result<system::cufile::CUfileHandle_t> find(const system::OpenFile& file);
  /// The answer of find() if it was ever asked for this file.
  [[nodiscard]] std::optional<Status> known(std::uint32_t file) const;
  /// The same as a number, for comparison: never asked, accepted, refused.
  [[nodiscard]] unsigned standing(std::uint32_t file) const;
  void forget(std::uint32_t file);
  void release();

 private:
  [[nodiscard]] Result<system::cufile::CUfileHandle_t> register_now(const system::OpenFile& file);
  void undo(const Result<system::cufile::CUfileHandle_t>& handle);

  CufileDriver& driver_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Result<system::cufile::CUfileHandle_t>> handles_;
};

}  // namespace nobounce::provider::storage
