# Writes the C++ source that embeds docs/causes/*.md. Run as a script:
#   cmake -DCAUSES=<folder> -DOUTPUT=<file.cpp> -P embed_causes.cmake

file(GLOB files LIST_DIRECTORIES false "${CAUSES}/*.md")
list(SORT files)

set(entries "")
set(count 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WLE)
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\",\n     R\"page(${text})page\"},\n")
  math(EXPR count "${count} + 1")
endforeach()

set(source "// Generated from docs/causes/*.md. Change those files, not this one.\n")
string(APPEND source "#include <array>\n\n#include \"cli/cause_pages.hpp\"\n\nnamespace nobounce::cli {\n\nnamespace {\n\n")
string(APPEND source "constexpr std::array<CausePage, ${count}> pages = {{\n${entries}}};\n\n}  // namespace\n\n")
string(APPEND source "std::span<const CausePage> cause_pages() { return pages; }\n\n}  // namespace nobounce::cli\n")
file(WRITE "${OUTPUT}" "${source}")
