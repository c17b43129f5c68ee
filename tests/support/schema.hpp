// A strict checker for the part of JSON Schema (draft 7) that docs/formats uses: type, required,
// properties, items, enum, minimum, additionalProperties and $ref to a sibling file. Any other
// keyword is a mistake in the schema.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"

namespace nobounce::test {

inline std::filesystem::path formats_folder() {
  return std::filesystem::path(NOBOUNCE_SOURCE_DIR) / "docs/formats";
}

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline core::Json json_of_file(const std::filesystem::path& path) {
  Result<core::Json> json = core::parse_json(text_of_file(path), path.filename().string());
  if (!json.ok()) throw std::runtime_error(to_string(json.error()));
  return std::move(json).value();
}

class SchemaCheck {
 public:
  /// One line per violation, `/pointer: what is wrong`; empty if the document is valid.
  static std::vector<std::string> violations(const core::Json& schema, const core::Json& document) {
    SchemaCheck check;
    check.visit(schema, document, "");
    return std::move(check.violations_);
  }

 private:
  void say(const std::string& where, const std::string& what) {
    violations_.push_back((where.empty() ? "/" : where) + ": " + what);
  }

  static std::string type_of(const core::Json& json) {
    if (json.is_null()) return "null";
    if (json.as_bool() != nullptr) return "boolean";
    if (json.as_text() != nullptr) return "string";
    if (json.as_array() != nullptr) return "array";
    if (json.as_object() != nullptr) return "object";
    return std::holds_alternative<double>(json.value) ? "number" : "integer";
  }

  void visit(const core::Json& schema, const core::Json& document, const std::string& where) {
    if (schema.as_object() == nullptr)
      throw std::runtime_error("a schema must be an object: " + where);
    for (const auto& [keyword, value] : *schema.as_object()) {
      if (keyword == "$schema" || keyword == "title" || keyword == "description") continue;
      if (keyword == "$ref") {
        visit(json_of_file(formats_folder() / *value.as_text()), document, where);
      } else if (keyword == "type") {
        check_type(value, document, where);
      } else if (keyword == "enum") {
        check_enum(value, document, where);
      } else if (keyword == "minimum") {
        if (type_of(document) == "integer" && document.as_unsigned() == nullptr)
          say(where, "is negative");
      } else if (keyword == "required") {
        check_required(value, document, where);
      } else if (keyword == "items") {
        if (document.as_array() == nullptr) continue;
        for (std::size_t i = 0; i < document.as_array()->size(); ++i) {
          visit(value, (*document.as_array())[i], where + "/" + std::to_string(i));
        }
      } else if (keyword == "properties" || keyword == "additionalProperties") {
        if (keyword == "properties" || schema.find("properties") == nullptr)
          check_members(schema, document, where);
      } else {
        throw std::runtime_error("the checker does not know the keyword " + keyword);
      }
    }
  }

  void check_type(const core::Json& wanted, const core::Json& document, const std::string& where) {
    const std::string type = type_of(document);
    if (wanted.as_text() != nullptr) {
      if (*wanted.as_text() != type) say(where, "is " + type + ", not " + *wanted.as_text());
      return;
    }
    for (const core::Json& allowed : *wanted.as_array()) {
      if (*allowed.as_text() == type) return;
    }
    say(where, "is " + type + ", which is not allowed");
  }

  void check_enum(const core::Json& allowed, const core::Json& document, const std::string& where) {
    for (const core::Json& value : *allowed.as_array()) {
      if (value == document) return;
    }
    say(where, "has a value that is not in the list: " + core::dump_json(document, true));
  }

  void check_required(const core::Json& names, const core::Json& document,
                      const std::string& where) {
    if (document.as_object() == nullptr) return;
    for (const core::Json& name : *names.as_array()) {
      if (document.find(*name.as_text()) == nullptr) say(where, "lacks " + *name.as_text());
    }
  }

  void check_members(const core::Json& schema, const core::Json& document,
                     const std::string& where) {
    if (document.as_object() == nullptr) return;
    const core::Json* properties = schema.find("properties");
    const core::Json* others = schema.find("additionalProperties");
    for (const auto& [name, value] : *document.as_object()) {
      const core::Json* property = properties == nullptr ? nullptr : properties->find(name);
      if (property != nullptr) {
        visit(*property, value, where + "/" + name);
      } else if (others != nullptr && others->as_object() != nullptr) {
        visit(*others, value, where + "/" + name);
      } else {
        say(where, "has " + name + ", which the schema does not know");
      }
    }
  }

  std::vector<std::string> violations_;
};

/// The schema file for a document, by its `schema` field; several receipts have a file of their
/// own.
inline std::string schema_name_for(const core::Json& document) {
  const core::Json* schema = document.find("schema");
  if (schema == nullptr || schema->as_text() == nullptr) return "(no schema field)";
  const std::string& text = *schema->as_text();
  const std::size_t begin = text.find('.');
  const std::size_t end = text.find('/');
  if (begin == std::string::npos || end == std::string::npos) return text;
  std::string name = text.substr(begin + 1, end - begin - 1);
  if (name == "receipt" && document.find("receipts") != nullptr) name = "receipts";
  return name + ".schema.json";
}

/// Violations of the schema that the document names, as one text; empty if it is valid.
inline std::string schema_violations(const core::Json& document) {
  const std::filesystem::path path = formats_folder() / schema_name_for(document);
  if (!std::filesystem::exists(path)) return "there is no " + path.string();
  std::string text;
  for (const std::string& violation : SchemaCheck::violations(json_of_file(path), document))
    text += violation + "\n";
  return text;
}

}  // namespace nobounce::test
