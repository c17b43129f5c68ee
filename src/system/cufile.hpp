// libcufile as a table; the base class is the absent default (5007, or -1 with errno 5007 for read
// and write).
#pragma once

#include "system/cufile_types.hpp"

namespace nobounce::system {

/// Thread-safe. read and write return bytes, or -1 with a cuFile code or errno in errno
/// (libcufile 1.15 as recorded).
class Cufile {
 public:
  using CUfileError_t = cufile::CUfileError_t;
  using CUfileHandle_t = cufile::CUfileHandle_t;
  using CUfileDescr_t = cufile::CUfileDescr_t;
  using CUfileDrvProps_t = cufile::CUfileDrvProps_t;
  using CUfileStatsLevel3_t = cufile::CUfileStatsLevel3_t;

  Cufile() = default;
  Cufile(const Cufile&) = delete;
  Cufile& operator=(const Cufile&) = delete;
  virtual ~Cufile() = default;

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) virtual type method parameters;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
};

}  // namespace nobounce::system
