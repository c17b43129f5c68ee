// A JSON value tree with a strict parser: duplicate keys and trailing text are errors with a line
// number. The rest of the program sees this type, not the library behind it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nobounce/result.hpp>

namespace nobounce::core {

struct Json;
using JsonArray = std::vector<Json>;
/// Members in document order; the parser guarantees distinct keys.
using JsonObject = std::vector<std::pair<std::string, Json>>;

struct Json {
  /// null, bool, signed, unsigned (used for non-negative integers), real, text, array, object.
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, JsonArray,
               JsonObject>
      value = nullptr;

  Json() = default;
  // Out of line: inlined, they take long to compile and make g++ 12 warn falsely at -O2.
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t) {}                                        // NOLINT: implicit by design
  Json(bool flag) : value(flag) {}                               // NOLINT
  Json(int number) : value(static_cast<std::int64_t>(number)) {  // NOLINT
    if (number >= 0) value = static_cast<std::uint64_t>(number);
  }
  Json(unsigned number) : value(static_cast<std::uint64_t>(number)) {}  // NOLINT
  Json(std::int64_t number) : value(number) {                           // NOLINT
    if (number >= 0) value = static_cast<std::uint64_t>(number);
  }
  Json(std::uint64_t number) : value(number) {}              // NOLINT
  Json(double number) : value(number) {}                     // NOLINT
  Json(const char* text) : value(std::string(text)) {}       // NOLINT
  Json(std::string_view text) : value(std::string(text)) {}  // NOLINT
  Json(std::string text) : value(std::move(text)) {}         // NOLINT
  Json(JsonArray items) : value(std::move(items)) {}         // NOLINT
  Json(JsonObject members) : value(std::move(members)) {}    // NOLINT

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&value); }
  [[nodiscard]] const std::uint64_t* as_unsigned() const {
    return std::get_if<std::uint64_t>(&value);
  }
  [[nodiscard]] const std::string* as_text() const { return std::get_if<std::string>(&value); }
  [[nodiscard]] const JsonArray* as_array() const { return std::get_if<JsonArray>(&value); }
  [[nodiscard]] const JsonObject* as_object() const { return std::get_if<JsonObject>(&value); }
  [[nodiscard]] JsonArray* as_array() { return std::get_if<JsonArray>(&value); }
  [[nodiscard]] JsonObject* as_object() { return std::get_if<JsonObject>(&value); }

  /// The member of an object with that key, or null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] Json* find(std::string_view key);

  bool operator==(const Json&) const = default;
};

struct JsonOptions {
  bool allow_comments = false;  ///< cufile.json is JSON with comments
  std::size_t depth_max = 64;
};

/// Parses one document. `name` (a file name) is what an error says was read; its detail begins with
/// the line: `line 3: duplicate key "gpus"`.
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view name,
                                      JsonOptions options = {});

/// Two-space indented, members in order, no trailing newline; or one line when `compact`.
[[nodiscard]] std::string dump_json(const Json& json, bool compact = false);

/// Bytes of the well-formed UTF-8 character that `text` begins with; 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// Well-formed UTF-8 without a NUL: what a JSON text of ours can hold and give back.
[[nodiscard]] bool is_plain_utf8(std::string_view text);

/// The value a JSON pointer (RFC 6901) names, or null if any step does not exist. Never creates
/// anything.
[[nodiscard]] const Json* resolve_pointer(const Json& document, std::string_view pointer);
[[nodiscard]] Json* resolve_pointer(Json& document, std::string_view pointer);

/// Every pointer of a document that leads to a scalar or an empty container, for "did you mean".
[[nodiscard]] std::vector<std::string> all_pointers(const Json& document);

/// The shortest candidate that begins with `text` (three characters or more), else the one with the
/// smallest edit distance; empty if there is none.
[[nodiscard]] std::string nearest(std::string_view text,
                                  const std::vector<std::string>& candidates);

/// The existing pointer that was probably meant: step by step, the nearest key or the last index.
[[nodiscard]] std::string nearest_pointer(const Json& document, std::string_view pointer);

/// One step of a pointer with `~` and `/` escaped.
[[nodiscard]] std::string pointer_step(std::string_view key);

}  // namespace nobounce::core
