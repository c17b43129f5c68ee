# These tests run the program.
if(TARGET machines_tests AND TARGET nobounce)
  add_dependencies(machines_tests nobounce)
endif()
