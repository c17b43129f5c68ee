# Headers, library, CMake package and pkg-config file; the program where it is built.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nobounce" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")
install(TARGETS nobounce_library EXPORT nobounce_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET nobounce)
  install(TARGETS nobounce RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/nobounce")
install(EXPORT nobounce_targets NAMESPACE nobounce:: FILE nobounceTargets.cmake DESTINATION "${package_folder}")
if(NOBOUNCE_HEADER_ONLY_FMT)
  set(NOBOUNCE_FIND_FMT "")
  set(NOBOUNCE_PC_FMT "")
else()
  set(NOBOUNCE_FIND_FMT "find_dependency(fmt)")
  set(NOBOUNCE_PC_FMT "-lfmt ")
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/nobounceConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/nobounceConfig.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/nobounceConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
# The prefix as seen from the .pc file, so that the installed tree can be moved.
file(RELATIVE_PATH NOBOUNCE_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/nobounce.pc.in" "${PROJECT_BINARY_DIR}/nobounce.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/nobounceConfig.cmake" "${PROJECT_BINARY_DIR}/nobounceConfigVersion.cmake"
        DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/nobounce.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
