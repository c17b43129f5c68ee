// The strict JSON parser: nlohmann's SAX events, with what that library lets pass made an error.
#include "core/json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

namespace nobounce::core {

namespace {

constexpr std::size_t error_text_max = 240;

std::size_t line_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

Error error_at(std::string_view text, std::string_view name, std::size_t offset,
               std::string message) {
  return Error{
      .origin = ErrorOrigin::input,
      .code = 0,
      .attempted = name.empty() ? "read JSON" : "read " + std::string(name),
      .cause = Cause::none,
      .detail = "line " + std::to_string(line_at(text, offset)) + ": " + std::move(message),
      .remedy = {}};
}

// An input iterator that leaves its position where events can see it: most SAX events carry none.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *consumed_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** consumed_;
};

// The library's message without its number and position; ours has a line number already.
std::string plain_message(std::string_view text) {
  const std::string_view column = ", column ";
  if (const auto at = text.find(column); at != std::string_view::npos) {
    if (const auto colon = text.find(": ", at); colon != std::string_view::npos) {
      text.remove_prefix(colon + 2);
    }
  } else if (const auto bracket = text.find("] "); bracket != std::string_view::npos) {
    text.remove_prefix(bracket + 2);
  }
  std::string plain(text.substr(0, error_text_max));
  if (text.size() > error_text_max) plain += " ...";
  // It quotes what it read, which may be cut or broken UTF-8.
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  return plain;
}

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, std::string_view name, JsonOptions options)
      : text_(text), name_(name), options_(options), consumed_(text.data()) {}

  const char** consumed() { return &consumed_; }
  Result<Json> take() {
    if (error_.has_value()) return std::move(*error_);
    return std::move(root_);
  }

  // The SAX interface; each event returns whether to go on.
  bool null() { return add(Json(nullptr)); }
  bool boolean(bool flag) { return add(Json(flag)); }
  bool number_integer(std::int64_t number) { return add(Json(number)); }
  bool number_unsigned(std::uint64_t number) { return add(Json(number)); }
  bool number_float(double number, const std::string& literal) {
    // The library turns an integer beyond 64 bits into a rounded double; nobody asked for that.
    if (literal.find_first_of(".eE") == std::string::npos) {
      return fail("the integer " + literal.substr(0, 40) + " does not fit in 64 bits");
    }
    return add(Json(number));
  }
  bool string(std::string& text) { return no_nul(text) && add(Json(std::move(text))); }
  bool binary(nlohmann::json::binary_t& /*bytes*/) { return fail("binary data is not JSON"); }
  bool start_object(std::size_t /*count*/) { return open(Json(JsonObject{})); }
  bool start_array(std::size_t /*count*/) { return open(Json(JsonArray{})); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!no_nul(name)) return false;
    if (!frames_.back().keys.insert(name).second) {
      return fail("duplicate key \"" + name.substr(0, error_text_max) + "\"");
    }
    frames_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& exception) {
    return fail(plain_message(exception.what()));
  }

 private:
  struct Frame {
    Json container;
    std::string key;                       // of the member that comes next
    std::unordered_set<std::string> keys;  // so far
  };

  bool fail(std::string message) {
    const auto read = static_cast<std::size_t>(consumed_ - text_.data());
    error_ = error_at(text_, name_, read == 0 ? 0 : read - 1, std::move(message));
    return false;
  }

  bool no_nul(const std::string& text) {
    return text.find('\0') == std::string::npos || fail("a text holds a NUL character");
  }

  bool add(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (JsonArray* items = frame.container.as_array()) {
      items->push_back(std::move(value));
    } else {
      frame.container.as_object()->emplace_back(std::move(frame.key), std::move(value));
    }
    return true;
  }

  bool open(Json container) {
    if (frames_.size() >= options_.depth_max) {
      return fail("nested deeper than " + std::to_string(options_.depth_max) + " levels");
    }
    frames_.push_back(Frame{.container = std::move(container), .key = {}, .keys = {}});
    return true;
  }

  bool close() {
    Json done = std::move(frames_.back().container);
    frames_.pop_back();
    return add(std::move(done));
  }

  std::string_view text_;
  std::string_view name_;
  JsonOptions options_;
  const char* consumed_;
  std::vector<Frame> frames_;
  Json root_;
  std::optional<Error> error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view name, JsonOptions options) {
  // Its versions word this one differently.
  if (text.empty()) return error_at(text, name, 0, "unexpected end of input: nothing is there");
  // The library takes a NUL for the end of the document and would ignore what follows.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return error_at(text, name, nul, "a NUL byte");
  }
  TreeBuilder builder(text, name, options);
  const TrackedIterator first(text.data(), builder.consumed());
  const TrackedIterator last(text.data() + text.size(), builder.consumed());
  (void)nlohmann::json::sax_parse(first, last, &builder, nlohmann::json::input_format_t::json,
                                  /*strict=*/true, options.allow_comments);
  return builder.take();
}

}  // namespace nobounce::core
