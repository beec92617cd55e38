# hearth_library(NAME LINKS ...): one library a row of the layering table. Sources are the .cc files
# of the folder; include paths start at the repository root; links are private, so that a library
# sees only what its own row names.
function(hearth_library name)
  cmake_parse_arguments(ARG "" "" "LINKS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  endif()
  add_library(hearth_${name} STATIC ${ARG_SOURCES})
  target_include_directories(hearth_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(hearth_${name} PRIVATE ${ARG_LINKS})
endfunction()
