// FileTree: lookups by whole path in one ordered map, links resolved component by component.
#include "fabric/soft_files_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>

namespace nobounce::fabric {
namespace {

constexpr int links_max = 40;  // as the kernel counts them

std::vector<std::string> components_of(std::string_view path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < path.size()) {
    std::size_t end = path.find('/', begin);
    if (end == std::string_view::npos) end = path.size();
    if (end > begin) parts.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? "/" : std::string(path.substr(0, slash));
}

Error tree_error(int code, std::string_view verb, std::string_view path) {
  std::string attempted(verb);
  attempted += ' ';
  attempted += path;
  return os_error(code, std::move(attempted));
}

}  // namespace

std::string relative_path(std::string_view from_directory, std::string_view to) {
  const std::vector<std::string> from = components_of(from_directory);
  const std::vector<std::string> target = components_of(to);
  std::size_t common = 0;
  while (common < from.size() && common < target.size() && from[common] == target[common]) ++common;
  std::string text;
  for (std::size_t i = common; i < from.size(); ++i) text += "../";
  for (std::size_t i = common; i < target.size(); ++i) {
    text += target[i];
    if (i + 1 < target.size()) text += '/';
  }
  return text.empty() ? "." : text;
}

FileTree::FileTree() {
  nodes_.emplace("/", Node{});
}

void FileTree::add(std::string_view path, Node node) {
  for (std::string parent = folder_of(path); nodes_.find(parent) == nodes_.end();
       parent = folder_of(parent)) {
    nodes_.emplace(parent, Node{});
  }
  nodes_.insert_or_assign(std::string(path), std::move(node));
}

void FileTree::add_text(std::string_view path, std::string text) {
  add(path, Node{Node::Kind::text, std::move(text), {}});
}

void FileTree::add_made_text(std::string_view path, std::function<std::string()> make) {
  add(path, Node{Node::Kind::made_text, {}, std::move(make)});
}

void FileTree::add_directory(std::string_view path) {
  if (nodes_.find(path) == nodes_.end()) add(path, Node{});
}

void FileTree::add_link(std::string_view path, std::string_view absolute_target) {
  add(path, Node{Node::Kind::link, relative_path(folder_of(path), absolute_target), {}});
}

void FileTree::show_while(std::string_view path, std::function<bool()> visible) {
  conditions_.emplace_back(std::string(path), std::move(visible));
}

bool FileTree::hidden(std::string_view path) const {
  return std::any_of(conditions_.begin(), conditions_.end(), [&](const auto& condition) {
    const std::string& top = condition.first;
    const bool below =
        path.substr(0, top.size()) == top && (path.size() == top.size() || path[top.size()] == '/');
    return below && !condition.second();
  });
}

const FileTree::Node* FileTree::find(const std::string& path) const {
  const auto at = nodes_.find(path);
  return at == nodes_.end() || hidden(path) ? nullptr : &at->second;
}

std::pair<std::string, int> FileTree::resolve(std::string_view path, bool follow_last) const {
  if (path.empty() || path.front() != '/') return {{}, ENOENT};
  const std::vector<std::string> first = components_of(path);
  std::deque<std::string> open(first.begin(), first.end());
  std::string at;  // without a trailing slash; empty is the root
  int links = 0;
  while (!open.empty()) {
    const std::string part = std::move(open.front());
    open.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      at.resize(at.empty() ? 0 : at.rfind('/'));
      continue;
    }
    const std::string next = at + '/' + part;
    const Node* node = find(next);
    if (node == nullptr) return {{}, ENOENT};
    if (node->kind == Node::Kind::link && (follow_last || !open.empty())) {
      if (++links > links_max) return {{}, ELOOP};
      const std::vector<std::string> target = components_of(node->text);
      open.insert(open.begin(), target.begin(), target.end());
      continue;
    }
    if (node->kind != Node::Kind::directory && !open.empty()) return {{}, ENOTDIR};
    at = next;
  }
  return {at.empty() ? "/" : at, 0};
}

Result<std::string> FileTree::read(std::string_view path) {
  const auto [real, code] = resolve(path, true);
  if (code != 0) return tree_error(code, "read", path);
  const Node* node = find(real);
  if (node == nullptr) return tree_error(ENOENT, "read", path);
  if (node->kind == Node::Kind::directory) return tree_error(EISDIR, "read", path);
  return node->kind == Node::Kind::made_text ? node->make() : node->text;
}

Result<std::vector<std::string>> FileTree::list(std::string_view path) {
  const auto [real, code] = resolve(path, true);
  if (code != 0) return tree_error(code, "list", path);
  const Node* node = find(real);
  if (node == nullptr) return tree_error(ENOENT, "list", path);
  if (node->kind != Node::Kind::directory) return tree_error(ENOTDIR, "list", path);
  const std::string prefix = real == "/" ? real : real + '/';
  std::vector<std::string> names;
  for (auto at = nodes_.upper_bound(prefix); at != nodes_.end(); ++at) {
    const std::string& name = at->first;
    if (name.compare(0, prefix.size(), prefix) != 0) break;
    if (name.find('/', prefix.size()) == std::string::npos && !hidden(name)) {
      names.push_back(name.substr(prefix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> FileTree::read_link(std::string_view path) {
  const auto [real, code] = resolve(path, false);
  if (code != 0) return tree_error(code, "read the link", path);
  const Node* node = find(real);
  if (node == nullptr || node->kind != Node::Kind::link) {
    return tree_error(node == nullptr ? ENOENT : EINVAL, "read the link", path);
  }
  return node->text;
}

Result<std::string> FileTree::real_path(std::string_view path) {
  auto [real, code] = resolve(path, true);
  if (code != 0) return tree_error(code, "resolve", path);
  return std::move(real);
}

bool FileTree::exists(std::string_view path) {
  return resolve(path, true).second == 0;
}

}  // namespace nobounce::fabric
