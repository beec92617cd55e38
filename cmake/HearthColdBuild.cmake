# HEARTH_COLD_BUILD: a build from nothing in less than half of the processor time. Most of that time
# goes into the headers of the standard library, Protobuf, JSON, CLI11 and gRPC, and into the same
# templates compiled again for each source. So CMake joins up to 52 sources of a target into one unit
# (UNITY_BUILD), and what computes nothing is compiled with -O1: tests, the command line and the HTTP
# API. A compiler cache gains more from single sources, so the option is off where ccache is in use;
# that build shows in turn that each source and each header compiles alone.
# tests/house/unity_names.py finds names that would collide.
set(cold ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(cold OFF)
endif()
option(HEARTH_COLD_BUILD "Join sources into larger units; -O1 for what computes nothing" ${cold})
set(CMAKE_UNITY_BUILD ${HEARTH_COLD_BUILD})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 52)
if(HEARTH_COLD_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class whose private parts are in an anonymous namespace, seen from the joined unit.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# hearth_light(): what this folder compiles from here on computes nothing itself.
macro(hearth_light)
  if(HEARTH_COLD_BUILD)
    # With less inlining GCC 12 warns of accesses beyond the bounds of its own std::string.
    add_compile_options(-O1 -Wno-error)
  endif()
endmacro()

# hearth_alone(FILES...): sources of this folder with an object file of their own, because a test
# links another in its place.
function(hearth_alone)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
