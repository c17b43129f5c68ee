# Headers, library, CMake package and pkg-config file; the program where it is built.

include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nobounce" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")
install(TARGETS nobounce_library EXPORT nobounce_targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET nobounce)
  install(TARGETS nobounce RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(NOT CMAKE_CROSSCOMPILING)  # the program writes its own man pages and completion
    set(documents "${PROJECT_BINARY_DIR}/documents")
    add_custom_command(OUTPUT "${documents}/complete"
      COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:nobounce>" "-DOUTPUT=${documents}"
              -P "${PROJECT_SOURCE_DIR}/cmake/documents.cmake"
      DEPENDS nobounce "${PROJECT_SOURCE_DIR}/cmake/documents.cmake"
      COMMENT "Writing man pages and shell completion"
      VERBATIM)
    add_custom_target(documents ALL DEPENDS "${documents}/complete")
    install(DIRECTORY "${documents}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
    install(FILES "${documents}/nobounce.bash" RENAME nobounce
            DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${documents}/nobounce.zsh" RENAME _nobounce
            DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${documents}/nobounce.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
  endif()
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/nobounce")
install(EXPORT nobounce_targets NAMESPACE nobounce:: FILE nobounceTargets.cmake DESTINATION "${package_folder}")
# What a program that links the library must link besides: nothing, where it is a shared one.
set(NOBOUNCE_FIND_DEPENDENCIES "")
set(NOBOUNCE_PC_LIBS "-luring -lxxhash -lsodium -ldl -pthread")
if(NOT NOBOUNCE_HEADER_ONLY_FMT)
  set(NOBOUNCE_PC_LIBS "-lfmt ${NOBOUNCE_PC_LIBS}")
endif()
set(NOBOUNCE_PC_LIBS_PRIVATE "")
if(BUILD_SHARED_LIBS)
  set(NOBOUNCE_PC_LIBS_PRIVATE "${NOBOUNCE_PC_LIBS}")
  set(NOBOUNCE_PC_LIBS "")
else()
  set(NOBOUNCE_FIND_DEPENDENCIES "set(THREADS_PREFER_PTHREAD_FLAG ON)\nfind_dependency(Threads)")
  if(NOT NOBOUNCE_HEADER_ONLY_FMT)
    string(APPEND NOBOUNCE_FIND_DEPENDENCIES "\nfind_dependency(fmt)")
  endif()
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
