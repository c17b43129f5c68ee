// The members of each library's answers that are read, and their types.
#include "recording/check_answers.hpp"

#include <cstdint>
#include <utility>
#include <variant>

namespace nobounce::recording {
namespace {

using core::Json;

enum class Type : std::uint8_t { text, number, flag };

bool has_type(const Json& json, Type type) {
  switch (type) {
    case Type::text:
      return json.as_text() != nullptr;
    case Type::flag:
      return json.as_bool() != nullptr;
    case Type::number:
      return json.as_unsigned() != nullptr || std::holds_alternative<std::int64_t>(json.value);
  }
  return false;
}

class Check {
 public:
  std::optional<WrongAnswer> run(std::string_view library, const Json& answers) {
    if (answers.is_null()) return std::nullopt;
    if (answers.as_object() == nullptr) return WrongAnswer{"", "needs an object or null"};
    error(answers);
    if (library == "nvml") {
      nvml(answers);
    } else if (library == "cuda") {
      cuda(answers);
    } else if (library == "cufile") {
      value(answers, "", "version", Type::number);
      exact(answers, "", "code", Type::number);
    } else {
      exact(answers, "", "library", Type::flag);
    }
    return std::move(wrong_);
  }

 private:
  void fail(std::string pointer, std::string what) {
    if (!wrong_.has_value()) wrong_ = WrongAnswer{std::move(pointer), std::move(what)};
  }

  void exact(const Json& json, const std::string& pointer, std::string_view key, Type type) {
    const Json* member = json.find(key);
    if (member == nullptr || has_type(*member, type)) return;
    fail(pointer + core::pointer_step(key), type == Type::text     ? "needs a text"
                                            : type == Type::number ? "needs a whole number"
                                                                   : "needs true or false");
  }

  /// The code that came instead of a value.
  static bool is_code(const Json& json) {
    const Json* code = json.find("code");
    return code != nullptr && has_type(*code, Type::number);
  }

  void value_itself(const Json& json, std::string pointer, Type type) {
    if (has_type(json, type) || is_code(json)) return;
    fail(std::move(pointer), type == Type::text ? "needs a text, or an object with a code"
                                                : "needs a whole number, or an object with a code");
  }

  void value(const Json& json, const std::string& pointer, std::string_view key, Type type) {
    const Json* member = json.find(key);
    if (member != nullptr) value_itself(*member, pointer + core::pointer_step(key), type);
  }

  void code(const Json& json, std::string_view key) {
    const Json* member = json.find(key);
    if (member != nullptr && !is_code(*member)) {
      fail(core::pointer_step(key), "needs an object with a code");
    }
  }

  void error(const Json& answers) {
    const Json* error = answers.find("error");
    if (error == nullptr) return;
    if (error->as_object() == nullptr) return fail("/error", "needs an object");
    for (const char* key : {"origin", "attempted", "detail"}) {
      exact(*error, "/error", key, Type::text);
    }
    exact(*error, "/error", "code", Type::number);
  }

  template <typename Each>
  void list(const Json& json, const std::string& pointer, std::string_view key, Each each) {
    const Json* member = json.find(key);
    if (member == nullptr) return;
    const std::string at = pointer + core::pointer_step(key);
    const core::JsonArray* items = member->as_array();
    if (items == nullptr) return fail(at, "needs an array");
    for (std::size_t i = 0; i < items->size(); ++i) each((*items)[i], at + "/" + std::to_string(i));
  }

  /// Of a GPU with each: null stands for itself.
  void numbers_of_pairs(const Json& json, const std::string& pointer, std::string_view key) {
    list(json, pointer, key, [this](const Json& item, const std::string& at) {
      if (!item.is_null()) value_itself(item, at, Type::number);
    });
  }

  void nvml(const Json& answers) {
    code(answers, "count");
    value(answers, "", "driver", Type::text);
    value(answers, "", "confidential", Type::number);
    list(answers, "", "gpus", [this](const Json& gpu, const std::string& at) {
      if (gpu.as_object() == nullptr) return fail(at, "needs an object");
      for (const char* key : {"bdf", "name", "uuid"}) value(gpu, at, key, Type::text);
      for (const char* key :
           {"memory_bytes", "bar1_bytes", "bar1_free_bytes", "mig", "virtualization"}) {
        value(gpu, at, key, Type::number);
      }
      numbers_of_pairs(gpu, at, "peer_read");
      numbers_of_pairs(gpu, at, "peer_write");
      list(gpu, at, "nvlinks", [this](const Json& link, const std::string& of_link) {
        value_itself(link, of_link, Type::text);
      });
    });
  }

  void cuda(const Json& answers) {
    code(answers, "init");
    list(answers, "", "devices", [this](const Json& device, const std::string& at) {
      if (device.as_object() == nullptr) return fail(at, "needs an object");
      value(device, at, "bdf", Type::text);
      numbers_of_pairs(device, at, "can_access");
      const Json* attributes = device.find("attributes");
      if (attributes == nullptr) return;
      const core::JsonObject* members = attributes->as_object();
      if (members == nullptr) return fail(at + "/attributes", "needs an object");
      for (const auto& [key, each] : *members) {
        value_itself(each, at + "/attributes" + core::pointer_step(key), Type::number);
      }
    });
  }

  std::optional<WrongAnswer> wrong_;
};

}  // namespace

std::optional<WrongAnswer> wrong_answer(std::string_view library, const Json& answers) {
  return Check().run(library, answers);
}

}  // namespace nobounce::recording
