# Relacy casts to a type before the object is made: no fault of what is checked.
foreach(tests model_tests)
  if(TARGET ${tests} AND "undefined" IN_LIST NOBOUNCE_SANITIZE)
    target_compile_options(${tests} PRIVATE -fno-sanitize=vptr)
  endif()
endforeach()
