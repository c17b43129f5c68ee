# Runs COMMAND (a list); fails unless it exits with 0 and prints what matches OUTPUT.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(NOT result EQUAL 0 OR NOT output MATCHES "${OUTPUT}")
  message(FATAL_ERROR "exit code ${result}; the output must match ${OUTPUT}")
endif()
