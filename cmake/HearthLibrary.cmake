# hearth_library(NAME [FOLDERS ...] [SOURCES ...] LINKS ...): a library. Its sources are the .cc files
# of this folder and of the sub-folders named, or exactly the SOURCES named. Include paths start at
# the repository root. Links are private, so that a library sees only what its own row of the
# layering table names.
function(hearth_library name)
  cmake_parse_arguments(ARG "" "" "LINKS;SOURCES;FOLDERS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(patterns ${ARG_FOLDERS})
    list(TRANSFORM patterns REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cc")
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${patterns})
  endif()
  add_library(hearth_${name} STATIC ${ARG_SOURCES})
  target_include_directories(hearth_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(hearth_${name} PRIVATE ${ARG_LINKS})
endfunction()
