# Installs into a fresh prefix, builds the consumer against nothing but that prefix, runs it, and runs the program.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${work})
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${build_folder} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${consumer} -B ${work}/build -G ${generator} -D CMAKE_CXX_COMPILER=${compiler}
    -D CMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)

execute_process(COMMAND ${work}/prefix/bin/penstock --version OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said STREQUAL "penstock ${version}\n")
  message(FATAL_ERROR "penstock --version said '${said}'")
endif()
file(REMOVE_RECURSE ${work})
