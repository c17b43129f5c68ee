// Recording <-> JSON: texts as they are, bytes that are no text in hexadecimal.
#include "recording/recording.hpp"

#include <optional>
#include <utility>

#include "recording/check_answers.hpp"

namespace nobounce::recording {
namespace {

using core::Json;
using core::JsonArray;
using core::JsonObject;

constexpr std::string_view schema = "nobounce.recording/1";
constexpr std::string_view digits = "0123456789abcdef";

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<std::uint8_t>(c) >> 4];
    text += digits[static_cast<std::uint8_t>(c) & 15];
  }
  return text;
}

std::optional<std::string> bytes_of(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = digits.find(hex[i]);
    const std::size_t low = digits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

/// Configuration space is mostly zeros: only what precedes the last of them is written out.
Json content_json(const std::string& content) {
  if (core::is_plain_utf8(content)) return Json(content);
  const std::size_t last = content.find_last_not_of('\0');
  const std::size_t used = last == std::string::npos ? 0 : last + 1;
  return JsonObject{{"hex", hex_of(std::string_view(content).substr(0, used))},
                    {"length", Json(std::uint64_t{content.size()})}};
}

template <typename Map>
Json map_json(const Map& map) {
  JsonObject members;
  for (const auto& [key, value] : map) members.emplace_back(key, Json(value));
  return Json(std::move(members));
}

class Reader {
 public:
  Reader(const Json& document, std::string_view name) : document_(document), name_(name) {}

  Result<Recording> read() {
    if (!is_recording(document_)) fail("/schema", "needs \"" + std::string(schema) + "\"");
    for (const auto& [key, value] : object(document_, "")) {
      const std::string at = "/" + key;
      if (key == "schema") continue;
      if (key == "name") {
        recording_.name = text(value, at);
      } else if (key == "taken_with") {
        recording_.taken_with = text(value, at);
      } else if (key == "files") {
        for (const auto& [path, each] : object(value, at)) {
          recording_.files.texts[path] = content(each, at + core::pointer_step(path));
        }
      } else if (key == "folders") {
        read_folders(value, at);
      } else if (key == "links") {
        texts(value, at, recording_.files.links);
      } else if (key == "unreadable") {
        numbers(value, at, recording_.files.unreadable);
      } else if (key == "environment") {
        texts(value, at, recording_.environment);
      } else if (key == "places") {
        texts(value, at, recording_.places);
      } else if (key == "missing_places") {
        numbers(value, at, recording_.missing_places);
      } else if (key == "nvml") {
        recording_.nvml = answers(value, key);
      } else if (key == "cuda") {
        recording_.cuda = answers(value, key);
      } else if (key == "cufile") {
        recording_.cufile = answers(value, key);
      } else if (key == "verbs") {
        recording_.verbs = answers(value, key);
      } else {
        fail(at, "unknown field");
      }
    }
    if (problem_.has_value()) return *problem_;
    return std::move(recording_);
  }

 private:
  void fail(const std::string& pointer, const std::string& what) {
    if (problem_.has_value()) return;
    problem_ = Error{.origin = ErrorOrigin::input,
                     .code = 0,
                     .attempted = "read " + std::string(name_),
                     .cause = Cause::none,
                     .detail = pointer + ": " + what,
                     .remedy = "nobounce record -o FILE writes a recording"};
  }

  const JsonObject& object(const Json& json, const std::string& pointer) {
    static const JsonObject nothing;
    const JsonObject* members = json.as_object();
    if (members == nullptr) fail(pointer.empty() ? "/" : pointer, "needs an object");
    return members == nullptr ? nothing : *members;
  }

  std::string text(const Json& json, const std::string& pointer) {
    const std::string* value = json.as_text();
    if (value == nullptr) fail(pointer, "needs a text");
    return value == nullptr ? std::string() : *value;
  }

  std::uint64_t number(const Json& json, const std::string& pointer, std::uint64_t most) {
    const std::uint64_t* value = json.as_unsigned();
    if (value == nullptr || *value > most) {
      fail(pointer, "needs a number of at most " + std::to_string(most));
      return 0;
    }
    return *value;
  }

  const Json& answers(const Json& json, const std::string& library) {
    if (const auto wrong = wrong_answer(library, json)) {
      fail("/" + library + wrong->pointer, wrong->what);
    }
    return json;
  }

  std::string content(const Json& json, const std::string& pointer) {
    if (json.as_object() == nullptr) return text(json, pointer);
    constexpr std::uint64_t length_max = 1u << 20;
    const Json* hex = json.find("hex");
    const Json* length = json.find("length");
    const auto bytes = hex == nullptr ? std::nullopt : bytes_of(text(*hex, pointer + "/hex"));
    if (!bytes.has_value() || length == nullptr) {
      fail(pointer, "needs a text, or hex and length");
      return {};
    }
    std::string result = *bytes;
    result.resize(static_cast<std::size_t>(number(*length, pointer + "/length", length_max)), '\0');
    return result;
  }

  void read_folders(const Json& json, const std::string& pointer) {
    for (const auto& [path, names] : object(json, pointer)) {
      const JsonArray* items = names.as_array();
      if (items == nullptr) {
        fail(pointer + core::pointer_step(path), "needs an array");
        return;
      }
      std::vector<std::string>& list = recording_.files.folders[path];
      for (const Json& name : *items)
        list.push_back(text(name, pointer + core::pointer_step(path)));
    }
  }

  template <typename Map>
  void texts(const Json& json, const std::string& pointer, Map& map) {
    for (const auto& [key, value] : object(json, pointer)) {
      map[key] = text(value, pointer + core::pointer_step(key));
    }
  }

  template <typename Map>
  void numbers(const Json& json, const std::string& pointer, Map& map) {
    constexpr std::uint64_t errno_max = 4095;
    for (const auto& [key, value] : object(json, pointer)) {
      map[key] = static_cast<int>(number(value, pointer + core::pointer_step(key), errno_max));
    }
  }

  const Json& document_;
  std::string_view name_;
  Recording recording_;
  std::optional<Error> problem_;
};

}  // namespace

bool is_recording(const Json& document) {
  const Json* given = document.find("schema");
  return given != nullptr && *given == Json(schema);
}

Json to_json(const Recording& recording) {
  JsonObject files;
  for (const auto& [path, content] : recording.files.texts) {
    files.emplace_back(path, content_json(content));
  }
  JsonObject folders;
  for (const auto& [path, names] : recording.files.folders) {
    JsonArray items;
    for (const std::string& name : names) items.emplace_back(name);
    folders.emplace_back(path, Json(std::move(items)));
  }
  return JsonObject{{"schema", schema},
                    {"name", recording.name},
                    {"taken_with", recording.taken_with},
                    {"environment", map_json(recording.environment)},
                    {"nvml", recording.nvml},
                    {"cuda", recording.cuda},
                    {"cufile", recording.cufile},
                    {"verbs", recording.verbs},
                    {"places", map_json(recording.places)},
                    {"missing_places", map_json(recording.missing_places)},
                    {"unreadable", map_json(recording.files.unreadable)},
                    {"links", map_json(recording.files.links)},
                    {"folders", Json(std::move(folders))},
                    {"files", Json(std::move(files))}};
}

Result<Recording> recording_from_json(const Json& document, std::string_view name) {
  return Reader(document, name).read();
}

Json error_json(const Error& error) {
  return JsonObject{{"origin", to_string(error.origin)},
                    {"code", Json(error.code)},
                    {"attempted", error.attempted},
                    {"detail", error.detail}};
}

Error error_from_json(const Json& json) {
  Error error{.origin = ErrorOrigin::os,
              .code = 0,
              .attempted = {},
              .cause = Cause::none,
              .detail = {},
              .remedy = {}};
  for (std::uint8_t i = 0; to_string(static_cast<ErrorOrigin>(i)) != "invalid"; ++i) {
    const Json* origin = json.find("origin");
    if (origin != nullptr && *origin == Json(to_string(static_cast<ErrorOrigin>(i)))) {
      error.origin = static_cast<ErrorOrigin>(i);
    }
  }
  if (const Json* code = json.find("code")) {
    if (const std::uint64_t* number = code->as_unsigned()) {
      error.code = static_cast<std::int64_t>(*number & 0x7fffffff);
    }
  }
  const auto text = [&json](const char* key) {
    const Json* value = json.find(key);
    const std::string* found = value == nullptr ? nullptr : value->as_text();
    return found == nullptr ? std::string() : *found;
  };
  error.attempted = text("attempted");
  error.detail = text("detail");
  return error;
}

}  // namespace nobounce::recording
