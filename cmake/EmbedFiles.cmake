# embed_files(FOLDER NAMES BYTES): NAMES becomes the sorted names of the files of a folder, and BYTES
# the C++ of one array for each, kFile0 and on.
function(embed_files folder names_out bytes_out)
  file(GLOB names RELATIVE ${folder} ${folder}/*)
  list(SORT names)
  set(bytes "")
  set(number 0)
  foreach(name ${names})
    file(READ ${folder}/${name} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
    string(APPEND bytes "constexpr unsigned char kFile${number}[] = {${hex}};\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND bytes "
template <std::size_t N>
std::string_view text(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}
")
  set(${names_out} ${names} PARENT_SCOPE)
  set(${bytes_out} "${bytes}" PARENT_SCOPE)
endfunction()
