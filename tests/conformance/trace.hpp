// The seam's tables with a trace: each call goes through to the real or soft table, and is written
// down by its foreign name with what it answered.
#pragma once

#include <cerrno>
#include <mutex>
#include <string>
#include <string_view>

#include "system/cuda.hpp"
#include "system/cufile.hpp"
#include "system/nvml.hpp"
#include "system/verbs.hpp"

namespace nobounce::conformance {

/// The lines of one sequence. Sink of the tables; thread-safe, but threads of a sequence take
/// turns, or its lines would have no order.
class Trace {
 public:
  using Sink = void (*)(void* context, const std::string& line);
  Trace(Sink sink, void* context) : sink_(sink), context_(context) {}

  /// A call: its foreign name first, so that a reader of answers can tell which were exercised.
  void call(std::string_view symbol, const std::string& answer) {
    write(std::string(symbol) + " = " + answer);
  }
  /// Something a call gave, or what it left behind. Indented: it is no call.
  void note(const std::string& text) { write("  " + text); }

 private:
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    sink_(context_, line);
  }
  Sink sink_;
  void* context_;
  std::mutex mutex_;
};

class TracedCuda final : public system::Cuda {
 public:
  TracedCuda(system::Cuda& table, Trace& trace) : table_(table), trace_(trace) {}
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  CUresult method parameters override {                      \
    const CUresult code = table_.method arguments;           \
    trace_.call(symbol, std::to_string(code));               \
    return code;                                             \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 private:
  system::Cuda& table_;
  Trace& trace_;
};

class TracedNvml final : public system::Nvml {
 public:
  TracedNvml(system::Nvml& table, Trace& trace) : table_(table), trace_(trace) {}
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t method parameters override {                  \
    const nvmlReturn_t code = table_.method arguments;       \
    trace_.call(symbol, std::to_string(code));               \
    return code;                                             \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

 private:
  system::Nvml& table_;
  Trace& trace_;
};

class TracedCufile final : public system::Cufile {
 public:
  TracedCufile(system::Cufile& table, Trace& trace) : table_(table), trace_(trace) {}
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments)    \
  type method parameters override {                                     \
    return call<type>(symbol, [&] { return table_.method arguments; }); \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  template <typename Type, typename Call>
  Type call(const char* symbol, Call&& made) {
    if constexpr (std::is_void_v<Type>) {
      made();
      trace_.call(symbol, "void");
    } else {
      errno = 0;
      const Type answer = made();
      const int error = errno;
      trace_.call(symbol, text_of(answer, error));
      errno = error;
      return answer;
    }
  }
  static std::string text_of(const CUfileError_t& answer, int) {
    const std::string code = std::to_string(answer.err);
    return answer.cu_err == 0 ? code : code + " cuda " + std::to_string(answer.cu_err);
  }
  static std::string text_of(long answer, int error) {
    const std::string number = std::to_string(answer);
    return answer >= 0 ? number : number + " errno " + std::to_string(error);
  }

  system::Cufile& table_;
  Trace& trace_;
};

class TracedVerbs final : public system::Verbs {
 public:
  TracedVerbs(system::Verbs& table, Trace& trace) : table_(table), trace_(trace) {}
#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) \
  int method parameters override {                            \
    const int code = table_.method arguments;                 \
    trace_.call(symbol, std::to_string(code));                \
    return code;                                              \
  }
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  system::Verbs& table_;
  Trace& trace_;
};

}  // namespace nobounce::conformance
