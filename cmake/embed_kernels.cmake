# Writes the C++ source that embeds the *.ptx of a folder. Run as a script:
#   cmake -DKERNELS=<folder> -DHEADER=<declares it> -DNAMESPACE=<its> -DOUTPUT=<file.cpp> -P embed_kernels.cmake

file(GLOB files LIST_DIRECTORIES false "${KERNELS}/*.ptx")
list(SORT files)

set(source "// Generated from *.ptx. Change those, by tools/kernels, not this one.\n")
string(APPEND source "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
string(APPEND source "const char* kernel_image(std::string_view name) {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  set(pieces "")
  string(LENGTH "${text}" length)
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} 8192 piece)
    string(APPEND pieces "\n        R\"kernel(${piece})kernel\"")
    math(EXPR begin "${begin} + 8192")
  endwhile()
  string(APPEND source "  if (name == \"${name}\") {\n    return${pieces};\n  }\n")
endforeach()
string(APPEND source "  return nullptr;\n}\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${source}")
