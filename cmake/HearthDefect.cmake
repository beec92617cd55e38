# hearth_plant(): gives HEARTH_DEFECT=N to those sources of this folder that the line of defect N in
# kernels/defect.h names. All others are compiled as ever.
set(HEARTH_DEFECT 0 CACHE STRING "Number of the defect to plant (kernels/defect.h), 0 for none")

function(hearth_plant)
  if(HEARTH_DEFECT EQUAL 0)
    return()
  endif()
  file(READ ${PROJECT_SOURCE_DIR}/kernels/defect.h text)
  if(NOT text MATCHES " = ${HEARTH_DEFECT}, +// \\[([^]]*)\\]")
    message(FATAL_ERROR "HEARTH_DEFECT=${HEARTH_DEFECT}: kernels/defect.h has no such defect")
  endif()
  string(REGEX MATCHALL "[a-z0-9_]+\\.cc" files "${CMAKE_MATCH_1}")
  foreach(file ${files} defect.cc)
    foreach(folder . x86)
      if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${file})
        cmake_path(SET path NORMALIZE ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${file})
        set_property(SOURCE ${path} APPEND PROPERTY COMPILE_DEFINITIONS
          HEARTH_DEFECT=${HEARTH_DEFECT})
      endif()
    endforeach()
  endforeach()
endfunction()

option(HEARTH_SWARM_DEFECTS "Mistakes of failover that `sim --defect N` plants (proto/defect.h)" OFF)

# Gives them to these sources of this folder.
function(hearth_plant_swarm)
  if(HEARTH_SWARM_DEFECTS)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS HEARTH_SWARM_DEFECTS)
  endif()
endfunction()
