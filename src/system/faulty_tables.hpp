// The foreign tables of a FaultyHost: every function of the lists, failed when its turn has come.
#pragma once

#include "system/cuda.hpp"
#include "system/cufile.hpp"
#include "system/fault_counter.hpp"
#include "system/nvml.hpp"
#include "system/verbs.hpp"

namespace nobounce::system {

class FaultyCuda final : public Cuda {
 public:
  FaultyCuda(FaultCounter& counter, Cuda& inner) : counter_(counter), inner_(inner) {}
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) CUresult method parameters override;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 private:
  FaultCounter& counter_;
  Cuda& inner_;
};

class FaultyNvml final : public Nvml {
 public:
  FaultyNvml(FaultCounter& counter, Nvml& inner) : counter_(counter), inner_(inner) {}
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t method parameters override;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

 private:
  FaultCounter& counter_;
  Nvml& inner_;
};

class FaultyCufile final : public Cufile {
 public:
  FaultyCufile(FaultCounter& counter, Cufile& inner) : counter_(counter), inner_(inner) {}
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  FaultCounter& counter_;
  Cufile& inner_;
};

class FaultyVerbs final : public Verbs {
 public:
  FaultyVerbs(FaultCounter& counter, Verbs& inner) : counter_(counter), inner_(inner) {}
#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) int method parameters override;
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  FaultCounter& counter_;
  Verbs& inner_;
};

}  // namespace nobounce::system
