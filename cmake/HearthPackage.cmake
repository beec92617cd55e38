# What an installation holds, and the Debian package of it. deploy/package writes the manual pages
# and completions, which come from the program itself, and then runs cpack.
#
# Two components: "program" runs from any folder; "service" is for the fixed places of a system.
include(GNUInstallDirs)
set(made ${PROJECT_BINARY_DIR}/package)
set(system ${PROJECT_SOURCE_DIR}/deploy/system)
install(TARGETS hearth COMPONENT program DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${made}/man/ COMPONENT program DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
  FILES_MATCHING PATTERN "*.1.gz")
install(DIRECTORY ${made}/completions/ COMPONENT program DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES ${system}/hearth-server.service ${system}/hearth-worker.service COMPONENT service
  DESTINATION lib/systemd/system)
install(FILES ${system}/sysusers.conf COMPONENT service RENAME hearth.conf DESTINATION lib/sysusers.d)
install(FILES ${system}/system.preset COMPONENT service RENAME 80-hearth.preset
  DESTINATION lib/systemd/system-preset)
install(FILES ${system}/service.env COMPONENT service DESTINATION lib/hearth)
install(PROGRAMS ${system}/hearth-service COMPONENT service DESTINATION ${CMAKE_INSTALL_SBINDIR})
install(FILES ${made}/hearth-service.8.gz COMPONENT service
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES ${system}/copyright ${made}/changelog.gz COMPONENT service
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hearth)
install(FILES ${system}/hearth.toml COMPONENT service DESTINATION /etc/hearth)

# A package is for the release of the distribution that it was built on, whose libraries it names.
set(release "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID)=")
  foreach(line ${lines})
    string(REGEX REPLACE "^[A-Z_]+=\"?([^\"]*)\"?$" "\\1" value ${line})
    if(line MATCHES "^ID=")
      string(PREPEND release ${value})
    else()
      string(APPEND release ${value})
    endif()
  endforeach()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${made})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Hearth <hearth@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "one inference server out of several home computers")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "Hearth joins desktops into one server for a large language model. Each machine
computes some of the layers and sends the results to the next one. The API is
compatible with OpenAI's, Anthropic's and Ollama's.")
set(CPACK_DEBIAN_PACKAGE_NAME hearth)
if(HEARTH_CUDA_COMPILER)
  set(CPACK_DEBIAN_PACKAGE_NAME hearth-cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES hearth)
  set(CPACK_DEBIAN_PACKAGE_CONFLICTS hearth)
  set(CPACK_DEBIAN_PACKAGE_REPLACES hearth)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION "${PROJECT_VERSION}~${release}")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, avahi-daemon, avahi-utils")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${system}/conffiles ${system}/postinst ${system}/prerm
  ${system}/postrm)
include(CPack)
