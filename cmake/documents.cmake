# Has the program write its man pages and completion scripts. Run as a script:
#   cmake -DPROGRAM=<nobounce> -DOUTPUT=<folder> -P documents.cmake
cmake_minimum_required(VERSION 3.22)

function(generate file)
  execute_process(COMMAND "${PROGRAM}" generate ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result
                  ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "nobounce generate ${ARGN} failed (${result}): ${error}")
  endif()
  if(file)
    file(WRITE "${OUTPUT}/${file}" "${text}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${OUTPUT}")
foreach(shell bash zsh fish)
  generate(nobounce.${shell} ${shell})
endforeach()
generate(man1/nobounce.1 man)
generate("" commands)
string(REGEX MATCHALL "[^\n]+" commands "${text}")
foreach(command IN LISTS commands)
  generate(man1/nobounce-${command}.1 man ${command})
endforeach()
file(TOUCH "${OUTPUT}/complete")
