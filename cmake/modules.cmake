# One OBJECT library per folder of src/ that has sources. To add a source file, add the file.

set(NOBOUNCE_TABLE "${PROJECT_SOURCE_DIR}/tools/include_table.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${NOBOUNCE_TABLE}")

# NOBOUNCE_MODULES: every module of the table. NOBOUNCE_MAY_INCLUDE_<module>: its allowed modules.
set(NOBOUNCE_MODULES "")
file(STRINGS "${NOBOUNCE_TABLE}" rows REGEX "^module ")
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^module ([^:]+):(.*)$")
    message(FATAL_ERROR "nobounce: ${NOBOUNCE_TABLE}: cannot read `${row}`")
  endif()
  set(name "${CMAKE_MATCH_1}")
  string(STRIP "${CMAKE_MATCH_2}" allowed)
  string(REGEX REPLACE " +" ";" allowed "${allowed}")
  if(name STREQUAL "provider/*")
    set(provider_may_include "${allowed}")
  else()
    list(APPEND NOBOUNCE_MODULES "${name}")
    set(NOBOUNCE_MAY_INCLUDE_${name} "${allowed}")
  endif()
endforeach()

# The folders of src/provider are the providers.
set(NOBOUNCE_PROVIDERS "")
file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/src/provider/*")
foreach(folder IN LISTS folders)
  if(IS_DIRECTORY "${folder}")
    get_filename_component(name "${folder}" NAME)
    list(APPEND NOBOUNCE_PROVIDERS "provider/${name}")
    set(NOBOUNCE_MAY_INCLUDE_provider/${name} "${provider_may_include}")
  endif()
endforeach()
list(APPEND NOBOUNCE_MODULES ${NOBOUNCE_PROVIDERS})

# provider/staged -> nobounce_provider_staged
function(nobounce_target_of module variable)
  string(REPLACE "/" "_" name "${module}")
  set(${variable} "nobounce_${name}" PARENT_SCOPE)
endfunction()

# The targets that the code of <module> may rest on, itself included: what its unit tests link.
function(nobounce_closure_of module variable)
  set(open "${module}")
  set(closed "")
  while(open)
    list(POP_FRONT open next)
    if(next STREQUAL "*")
      list(APPEND open ${NOBOUNCE_MODULES})
    elseif(next STREQUAL "provider")
      list(APPEND open ${NOBOUNCE_PROVIDERS})
    elseif(NOT next IN_LIST closed)
      list(APPEND closed "${next}")
      list(APPEND open ${NOBOUNCE_MAY_INCLUDE_${next}})
    endif()
  endwhile()
  set(targets "")
  foreach(name IN LISTS closed)
    nobounce_target_of("${name}" target)
    if(TARGET ${target})
      list(APPEND targets ${target})
    endif()
  endforeach()
  set(${variable} "${targets}" PARENT_SCOPE)
endfunction()

file(GLOB NOBOUNCE_MACHINES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/machines/*.json")
set(embedded "${PROJECT_BINARY_DIR}/generated/embedded_machines.cpp")
add_custom_command(
  OUTPUT "${embedded}"
  COMMAND "${CMAKE_COMMAND}" "-DMACHINES=${PROJECT_SOURCE_DIR}/machines" "-DOUTPUT=${embedded}"
          -P "${PROJECT_SOURCE_DIR}/cmake/embed_machines.cmake"
          # Named, so that adding or removing a file regenerates.
          -- ${NOBOUNCE_MACHINES}
  DEPENDS ${NOBOUNCE_MACHINES} "${PROJECT_SOURCE_DIR}/cmake/embed_machines.cmake"
  COMMENT "Embedding machines/*.json"
  VERBATIM)

file(GLOB NOBOUNCE_KERNELS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/async/kernels/*.ptx")
set(embedded_kernels "${PROJECT_BINARY_DIR}/generated/embedded_kernels.cpp")
add_custom_command(
  OUTPUT "${embedded_kernels}"
  COMMAND "${CMAKE_COMMAND}" "-DKERNELS=${PROJECT_SOURCE_DIR}/src/async/kernels" -DHEADER=async/embedded_kernels.hpp
          -DNAMESPACE=nobounce::async "-DOUTPUT=${embedded_kernels}"
          -P "${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake" -- ${NOBOUNCE_KERNELS}
  DEPENDS ${NOBOUNCE_KERNELS} "${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake"
  COMMENT "Embedding src/async/kernels/*.ptx"
  VERBATIM)

file(GLOB NOBOUNCE_CAUSE_PAGES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/causes/*.md")
set(embedded_causes "${PROJECT_BINARY_DIR}/generated/embedded_causes.cpp")
add_custom_command(
  OUTPUT "${embedded_causes}"
  COMMAND "${CMAKE_COMMAND}" "-DCAUSES=${PROJECT_SOURCE_DIR}/docs/causes" "-DOUTPUT=${embedded_causes}"
          -P "${PROJECT_SOURCE_DIR}/cmake/embed_causes.cmake"
  DEPENDS ${NOBOUNCE_CAUSE_PAGES} "${PROJECT_SOURCE_DIR}/cmake/embed_causes.cmake"
  COMMENT "Embedding docs/causes/*.md"
  VERBATIM)

set(NOBOUNCE_LIBRARY_TARGETS "")
foreach(module IN LISTS NOBOUNCE_MODULES)
  set(folder "${PROJECT_SOURCE_DIR}/src/${module}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  # main() belongs to the executable alone, so that unit tests can link the commands.
  list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  if(module STREQUAL "fabric")
    list(APPEND sources "${embedded}")
    set_source_files_properties("${embedded}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(module STREQUAL "async")
    list(APPEND sources "${embedded_kernels}")
    set_source_files_properties("${embedded_kernels}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(module STREQUAL "cli")
    list(APPEND sources "${embedded_causes}")
    set_source_files_properties("${embedded_causes}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(NOT sources)
    continue()
  endif()
  nobounce_target_of("${module}" target)
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PRIVATE nobounce_settings)
  set(unity ${NOBOUNCE_UNITY})
  if(module IN_LIST NOBOUNCE_UNITY_EXCEPT)
    set(unity OFF)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8 UNITY_BUILD ${unity})
  # The shim of cuFile's ABI is a library of its own.
  if(NOT module STREQUAL "cli" AND NOT module STREQUAL "cufile_abi")
    list(APPEND NOBOUNCE_LIBRARY_TARGETS ${target})
  endif()
endforeach()

# Static, unless BUILD_SHARED_LIBS asks otherwise.
add_library(nobounce_library)
add_library(nobounce::nobounce ALIAS nobounce_library)
foreach(target IN LISTS NOBOUNCE_LIBRARY_TARGETS)
  target_sources(nobounce_library PRIVATE $<TARGET_OBJECTS:${target}>)
endforeach()
set_target_properties(nobounce_library PROPERTIES
  OUTPUT_NAME nobounce EXPORT_NAME nobounce LINKER_LANGUAGE CXX
  # Before 1.0 every minor version may change the ABI.
  VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
target_compile_features(nobounce_library PUBLIC cxx_std_20)
target_include_directories(nobounce_library PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(nobounce_library PUBLIC $<BUILD_INTERFACE:nobounce_settings>)
# A static library leaves its dependencies to whoever links it; a shared one brings them along.
if(NOT BUILD_SHARED_LIBS)
  target_link_libraries(nobounce_library PUBLIC
    $<INSTALL_INTERFACE:Threads::Threads>
    $<INSTALL_INTERFACE:uring> $<INSTALL_INTERFACE:xxhash> $<INSTALL_INTERFACE:sodium>
    $<INSTALL_INTERFACE:${CMAKE_DL_LIBS}>)
  if(NOT NOBOUNCE_HEADER_ONLY_FMT)
    target_link_libraries(nobounce_library PUBLIC $<INSTALL_INTERFACE:fmt::fmt>)
  endif()
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  add_executable(nobounce "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  if(TARGET nobounce_cli)
    target_link_libraries(nobounce PRIVATE nobounce_cli)
  endif()
  target_link_libraries(nobounce PRIVATE nobounce_library nobounce_settings)
  set_target_properties(nobounce PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
                                            UNITY_BUILD OFF)
  if(BUILD_SHARED_LIBS)  # found beside the program, wherever both are moved
    file(RELATIVE_PATH to_library "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(nobounce PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
  endif()
  if(NOBOUNCE_STATIC_DEPENDENCIES)
    target_link_options(nobounce PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endif()
