# Relacy casts to a type before the object is made: no fault of what is checked. An option of the
# source, as it must follow the target's own.
if("undefined" IN_LIST NOBOUNCE_SANITIZE)
  file(GLOB model_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*_test.cpp")
  set_source_files_properties(${model_sources} PROPERTIES COMPILE_OPTIONS -fno-sanitize=vptr)
endif()
