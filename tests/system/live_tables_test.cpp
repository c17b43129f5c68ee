// The live loaders against double libraries: every function of every list, old libraries, missing
// ones.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "support/temporary_directory.hpp"
#include "system/doubles/answer.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

std::string double_path(const std::string& name) {
  return std::string(NOBOUNCE_DOUBLE_DIR) + "/" + name + ".so";
}

std::unique_ptr<Host> host_with_doubles(const std::string& kind) {
  LiveOptions options;
  options.cuda_library = double_path("libcuda" + kind);
  options.nvml_library = double_path("libnvml" + kind);
  options.cufile_library = double_path("libcufile" + kind);
  return make_live_host(options);
}

/// A value that no other position of a call gets.
template <typename T>
T argument(int position) {
  const std::uint64_t number = 0x1122334455667700ull + static_cast<unsigned>(position);
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(number);
  } else if constexpr (std::is_class_v<T>) {
    T value{};
    std::memcpy(&value, &number, sizeof number);
    const std::uint64_t last = number + 0x100;
    std::memcpy(reinterpret_cast<char*>(&value) + sizeof(T) - sizeof last, &last, sizeof last);
    return value;
  } else {
    return static_cast<T>(number);
  }
}

template <typename... A, std::size_t... Positions>
std::tuple<A...> distinct_arguments(std::index_sequence<Positions...>) {
  return {argument<A>(static_cast<int>(Positions) + 1)...};
}

/// Calls a method of a table with distinct arguments and hands back the answer that was due.
template <typename Table, typename R, typename... A>
R call(Table& table, R (Table::*method)(A...), const char* name, std::uint64_t& due) {
  const auto arguments = distinct_arguments<A...>(std::index_sequence_for<A...>());
  due = std::apply(doubles::Answer{name}, arguments);
  return std::apply([&](A... values) { return (table.*method)(values...); }, arguments);
}

TEST(LiveCuda, CallsEveryFunctionOfTheListUnderItsRealName) {
  const auto host = host_with_doubles("_double");
  const auto table = host->cuda();
  ASSERT_TRUE(table) << to_string(table.error());
  std::uint64_t due = 0;
  std::set<int> codes;
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments)                            \
  {                                                                                     \
    const int code = call(**table, &Cuda::method, #method, due);                        \
    EXPECT_EQ(code, doubles::code_of(due)) << symbol;                                   \
    EXPECT_TRUE(codes.insert(code).second) << symbol << " answers as another function"; \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  EXPECT_GE(codes.size(), 40u);
}

TEST(LiveNvml, CallsEveryFunctionOfTheListUnderItsRealName) {
  const auto host = host_with_doubles("_double");
  const auto table = host->nvml();
  ASSERT_TRUE(table) << to_string(table.error());
  std::uint64_t due = 0;
  std::set<int> codes;
#define NOBOUNCE_NVML(method, symbol, parameters, arguments)                            \
  {                                                                                     \
    const int code = call(**table, &Nvml::method, #method, due);                        \
    EXPECT_EQ(code, doubles::code_of(due)) << symbol;                                   \
    EXPECT_TRUE(codes.insert(code).second) << symbol << " answers as another function"; \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
  EXPECT_GE(codes.size(), 8u);
}

/// Compares what a cuFile method answered with what was due, whatever its return type.
class CufileAnswers {
 public:
  explicit CufileAnswers(Cufile& table) : table_(table) {
    void* const library = dlopen(double_path("libcufile_double").c_str(), RTLD_NOW | RTLD_NOLOAD);
    last_void_ =
        reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "nobounce_double_last_void_answer"));
  }

  template <typename R, typename... A>
  void expect(R (Cufile::*method)(A...), const char* name) {
    std::uint64_t due = 0;
    if constexpr (std::is_void_v<R>) {
      call(table_, method, name, due);
      EXPECT_EQ(last_void_(), due) << name;
    } else if constexpr (std::is_same_v<R, cufile::CUfileError_t>) {
      const auto answer = call(table_, method, name, due);
      EXPECT_EQ(answer.err, doubles::code_of(due)) << name;
      EXPECT_EQ(answer.cu_err, doubles::code_of(due >> 32)) << name;
    } else {
      const long answer = call(table_, method, name, due);
      EXPECT_EQ(answer, static_cast<long>(due)) << name;
      if (std::string(name) != "use_count") {
        EXPECT_EQ(errno, doubles::code_of(due >> 32)) << name << " lost errno";
      }
    }
    seen_.insert(due);
  }
  [[nodiscard]] std::size_t distinct() const { return seen_.size(); }

 private:
  Cufile& table_;
  std::uint64_t (*last_void_)() = nullptr;
  std::set<std::uint64_t> seen_;
};

TEST(LiveCufile, CallsEveryFunctionOfTheListUnderItsRealName) {
  const auto host = host_with_doubles("_double");
  const auto table = host->cufile();
  ASSERT_TRUE(table) << to_string(table.error());
  CufileAnswers answers(**table);
  std::size_t functions = 0;
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  answers.expect(&Cufile::method, #method);                          \
  ++functions;
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
  EXPECT_GE(functions, 14u);
  EXPECT_EQ(answers.distinct(), functions);
}

TEST(LiveCuda, KeepsTheAbsentAnswerForFunctionsThatAnOldDriverLacks) {
  const auto host = host_with_doubles("_old_double");
  const auto table = host->cuda();
  ASSERT_TRUE(table) << to_string(table.error());
  int count = 0;
  EXPECT_EQ((*table)->init(0), 41);
  EXPECT_EQ((*table)->device_get_count(&count), 0);
  EXPECT_EQ(count, 7);
  int version = -1;
  EXPECT_EQ((*table)->driver_get_version(&version), cuda::error_not_supported);
  EXPECT_EQ(version, -1);
}

TEST(LiveNvml, KeepsTheAbsentAnswerForFunctionsThatAnOldLibraryLacks) {
  const auto host = host_with_doubles("_old_double");
  const auto table = host->nvml();
  ASSERT_TRUE(table) << to_string(table.error());
  EXPECT_EQ((*table)->shutdown(), 43);
  EXPECT_EQ((*table)->init(), nvml::error_function_not_found);
}

TEST(LiveCufile, KeepsTheAbsentAnswerForFunctionsThatAnOldLibraryLacks) {
  const auto host = host_with_doubles("_old_double");
  const auto table = host->cufile();
  ASSERT_TRUE(table) << to_string(table.error());
  EXPECT_EQ((*table)->use_count(), 44);
  EXPECT_EQ((*table)->set_stats_level(3).err, cufile::error_absent);
  errno = 0;
  EXPECT_EQ((*table)->read(nullptr, nullptr, 1, 0, 0), -1);
  EXPECT_EQ(errno, cufile::error_absent);
}

TEST(LiveHost, AnswersTheSameTableEachTime) {
  const auto host = host_with_doubles("_double");
  const auto first = host->cuda();
  const auto second = host->cuda();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
}

TEST(LiveHost, NamesTheMissingLibraryThatItLookedFor) {
  LiveOptions options;
  options.cuda_library = "libnobounce-no-cuda.so.1";
  options.nvml_library = "libnobounce-no-nvml.so.1";
  options.cufile_library = "/nowhere/libcufile.so.0";
  const auto host = make_live_host(options);
  const auto check = [](const Error& error, const std::string& file) {
    EXPECT_EQ(error.origin, ErrorOrigin::os);
    EXPECT_EQ(error.code, ENOENT);
    EXPECT_NE(error.detail.find(file), std::string::npos) << error.detail;
    EXPECT_NE(error.attempted.find(file), std::string::npos) << error.attempted;
    EXPECT_FALSE(remedy_of(error).empty());
  };
  const auto cuda = host->cuda();
  ASSERT_FALSE(cuda);
  check(cuda.error(), options.cuda_library);
  const auto nvml = host->nvml();
  ASSERT_FALSE(nvml);
  check(nvml.error(), options.nvml_library);
  const auto cufile = host->cufile();
  ASSERT_FALSE(cufile);
  EXPECT_EQ(cufile.error().cause, Cause::storage_cufile_absent);
  check(cufile.error(), options.cufile_library);
}

TEST(LiveHost, SaysWhatIsWrongWithALibraryThatCannotBeLoaded) {
  const test::TemporaryDirectory folder;
  LiveOptions options;
  options.cuda_library = folder.file("libcuda.so.1");
  std::ofstream(options.cuda_library)
      << "this is no shared library, however long the text may be\n";
  const auto host = make_live_host(options);
  const auto table = host->cuda();
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().origin, ErrorOrigin::os);
  EXPECT_NE(table.error().code, ENOENT);
  EXPECT_NE(table.error().detail.find(options.cuda_library), std::string::npos);
}

}  // namespace
}  // namespace nobounce::system
