// Machine <-> JSON. One description of the fields serves reading and writing, so that they cannot
// drift apart.
#include "core/machine_json.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/machine_fields.hpp"

namespace nobounce::core {

namespace {

constexpr std::string_view schema = "nobounce.machine/1";
// More than any machine has; validate() knows the exact bound. Keeps a hostile file from filling
// memory.
constexpr std::size_t items_max = 4096;

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string kind_of(const Json& json) {
  constexpr std::string_view kinds[] = {
      "null",   "true or false", "a negative number", "a number", "a number with a fraction",
      "a text", "an array",      "an object"};
  return std::string(kinds[json.value.index()]);
}

std::optional<Parent> parent_from(std::string_view text) {
  for (const Parent::Kind kind :
       {Parent::Kind::host_bridge, Parent::Kind::pci_switch, Parent::Kind::nic}) {
    const std::string zero = to_string(Parent{kind, 0});
    const std::string_view prefix = std::string_view(zero).substr(0, zero.size() - 1);
    if (text.substr(0, prefix.size()) != prefix) continue;
    text.remove_prefix(prefix.size());
    const bool padded = text.size() > 1 && text.front() == '0';
    if (text.empty() || text.size() > 9 || padded) return std::nullopt;
    std::uint32_t index = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      index = index * 10 + static_cast<std::uint32_t>(c - '0');
    }
    return Parent{kind, index};
  }
  return std::nullopt;
}

// --- writing ---

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    members_.emplace_back(name, write(value));
  }
  // A switch hangs under a host bridge by number, or under another switch by name.
  void place_of(const Parent& parent) {
    if (parent.kind == Parent::Kind::host_bridge) {
      members_.emplace_back("host_bridge", Json(parent.index));
    } else {
      members_.emplace_back("parent", Json(to_string(parent)));
    }
  }
  [[nodiscard]] JsonObject take() { return std::move(members_); }

 private:
  static Json write(bool value) { return Json(value); }
  static Json write(std::uint32_t value) { return Json(value); }
  static Json write(std::uint64_t value) { return Json(value); }
  static Json write(const std::string& value) { return Json(value); }
  static Json write(const Parent& value) { return Json(to_string(value)); }
  template <Enum E>
  static Json write(E value) {
    return Json(to_string(value));
  }
  static Json write(const std::map<std::string, std::string>& value) {
    JsonObject members;
    for (const auto& [key, text] : value) members.emplace_back(key, Json(text));
    return Json(std::move(members));
  }
  template <typename T>
  static Json write(const std::vector<T>& value) {
    JsonArray items;
    for (const T& item : value) items.push_back(write(item));
    return Json(std::move(items));
  }
  template <typename Part>
  requires std::is_class_v<Part>
  static Json write(const Part& part) {
    Writer writer;
    describe(writer, part);
    return Json(writer.take());
  }

  JsonObject members_;
};

// --- reading ---

// Lays a document over a machine: what the document does not name keeps its value.
class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  void fail(const std::string& pointer, const std::string& what, std::string remedy = {}) {
    if (error_.has_value()) return;
    error_ = Error{.origin = ErrorOrigin::input,
                   .code = 0,
                   .attempted = "read " + std::string(name_),
                   .cause = Cause::none,
                   .detail = (pointer.empty() ? "/" : pointer) + ": " + what,
                   .remedy = std::move(remedy)};
  }

  template <typename Part>
  requires std::is_class_v<Part>
  void read(const Json& json, const std::string& pointer, Part& part);

  void read(const Json& json, const std::string& pointer, bool& value) {
    if (const bool* flag = json.as_bool()) {
      value = *flag;
    } else {
      wrong(pointer, "true or false", json);
    }
  }
  void read(const Json& json, const std::string& pointer, std::uint64_t& value) {
    if (const std::uint64_t* number = json.as_unsigned()) {
      value = *number;
    } else {
      wrong(pointer, "a whole number, zero or more", json);
    }
  }
  void read(const Json& json, const std::string& pointer, std::uint32_t& value) {
    std::uint64_t wide = value;
    read(json, pointer, wide);
    if (wide > std::numeric_limits<std::uint32_t>::max()) {
      fail(pointer, std::to_string(wide) + " is more than 4294967295");
      return;
    }
    value = static_cast<std::uint32_t>(wide);
  }
  void read(const Json& json, const std::string& pointer, std::string& value) {
    if (const std::string* text = json.as_text()) {
      value = *text;
    } else {
      wrong(pointer, "a text", json);
    }
  }
  void read(const Json& json, const std::string& pointer, Parent& value) {
    const std::string* text = json.as_text();
    const auto parent = text != nullptr ? parent_from(*text) : std::nullopt;
    if (parent.has_value()) {
      value = *parent;
    } else {
      wrong(pointer, "a parent such as host_bridge:0, switch:1 or nic:0", json);
    }
  }
  template <Enum E>
  void read(const Json& json, const std::string& pointer, E& value) {
    const std::vector<std::string> words = words_of<E>();
    if (const std::string* text = json.as_text()) {
      const auto found = std::find(words.begin(), words.end(), *text);
      if (found != words.end()) {
        value = static_cast<E>(found - words.begin());
        return;
      }
    }
    wrong(pointer, listed(words), json);
  }
  void read(const Json& json, const std::string& pointer,
            std::map<std::string, std::string>& value) {
    const JsonObject* members = json.as_object();
    if (members == nullptr) {
      wrong(pointer, "an object", json);
      return;
    }
    value.clear();
    for (const auto& [key, text] : *members) read(text, pointer + pointer_step(key), value[key]);
  }
  template <typename T>
  void read(const Json& json, const std::string& pointer, std::vector<T>& value) {
    const JsonArray* items = json.as_array();
    if (items == nullptr) {
      wrong(pointer, "an array", json);
      return;
    }
    if (items->size() > items_max) {
      fail(pointer, "more than " + std::to_string(items_max) + " items");
      return;
    }
    for (std::size_t i = value.size(); i < items->size(); ++i) {
      value.emplace_back();
      // Nameless until a name is read or made up: the struct's own default would pass for a given
      // one.
      if constexpr (is<T, Nic> || is<T, Drive>) value.back().name.clear();
    }
    for (std::size_t i = 0; i < items->size() && !error_.has_value(); ++i) {
      read((*items)[i], pointer + "/" + std::to_string(i), value[i]);
    }
  }

 private:
  void wrong(const std::string& pointer, const std::string& needed, const Json& found) {
    std::string what = "needs " + needed + ", not " + kind_of(found);
    if (const std::string* text = found.as_text()) what += " \"" + text->substr(0, 80) + "\"";
    fail(pointer, what);
  }

  std::string_view name_;
  std::optional<Error> error_;
};

// Reads the members of one object, and remembers their names to know strangers by.
class FieldReader {
 public:
  FieldReader(Reader& reader, const Json& object, const std::string& pointer)
      : reader_(reader), object_(object), pointer_(pointer) {}

  template <typename T>
  void operator()(const char* name, T& value) {
    if (const Json* member = member_named(name)) {
      reader_.read(*member, pointer_ + "/" + name, value);
    }
  }

  void place_of(Parent& parent) {
    const Json* bridge = member_named("host_bridge");
    const Json* above = member_named("parent");
    if (bridge != nullptr && above != nullptr) {
      reader_.fail(pointer_, "has both host_bridge and parent: one of them, please");
    } else if (bridge != nullptr) {
      parent.kind = Parent::Kind::host_bridge;
      reader_.read(*bridge, pointer_ + "/host_bridge", parent.index);
    } else if (above != nullptr) {
      reader_.read(*above, pointer_ + "/parent", parent);
    }
  }

  void reject_strangers() {
    for (const auto& [key, value] : *object_.as_object()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const std::string meant = pointer_ + pointer_step(nearest(key, known_));
      reader_.fail(pointer_ + pointer_step(key.substr(0, 80)),
                   "unknown field, the nearest is " + meant, "did you mean " + meant + "?");
      return;
    }
  }

  const Json* member_named(const char* name) {
    known_.emplace_back(name);
    return object_.find(name);
  }

 private:
  Reader& reader_;
  const Json& object_;
  const std::string& pointer_;
  std::vector<std::string> known_;
};

template <typename Part>
requires std::is_class_v<Part>
void Reader::read(const Json& json, const std::string& pointer, Part& part) {
  if (json.as_object() == nullptr) {
    wrong(pointer, "an object", json);
    return;
  }
  FieldReader fields(*this, json, pointer);
  if constexpr (std::is_same_v<Part, Machine>) {
    const Json* given = fields.member_named("schema");
    if (given != nullptr && *given != Json(schema)) {
      fail("/schema", "needs \"" + std::string(schema) + "\"");
    }
  }
  describe(fields, part);
  fields.reject_strangers();
}

}  // namespace

Result<Machine> machine_from_text(std::string_view text, std::string_view name) {
  Result<Json> document = parse_json(text, name);
  if (!document.ok()) return std::move(document).error();
  return machine_from_json(*document, name);
}

Result<Machine> machine_from_json(const Json& document, std::string_view name) {
  Machine machine;
  Reader first(name);
  first.read(document, "", machine);
  if (first.error().has_value()) return *first.error();
  // Defaults are for what was left out. A value that was given stays, also a zero or an empty text:
  // a recording that says "not known" must not come back as a guess.
  complete_machine(machine);
  Reader second(name);
  second.read(document, "", machine);
  if (second.error().has_value()) return *second.error();
  if (machine.name.empty()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read " + std::string(name),
                 .detail = "/name: is empty; every report names its machine"};
  }
  if (const Status valid = validate(machine); !valid.ok()) {
    Error error = valid.error();
    error.attempted = "read " + std::string(name);
    return error;
  }
  return machine;
}

Json machine_to_json(const Machine& machine) {
  Writer writer;
  describe(writer, machine);
  JsonObject document;
  document.emplace_back("schema", Json(schema));
  for (auto& member : writer.take()) document.push_back(std::move(member));
  return Json(std::move(document));
}

}  // namespace nobounce::core
