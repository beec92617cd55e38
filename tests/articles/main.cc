// articles [--json]: the figures of four articles on a 70B model, computed and corrected.

#include <cstdio>
#include <string_view>

#include "tests/articles/words.h"

int main(int argc, char** argv) {
  using namespace hearth::cli;
  if (argc > 1 && std::string_view(argv[1]) == "--json") {
    std::printf("%s\n", article_json(catalogue()).c_str());
    return 0;
  }
  for (const std::string& line : article_lines(catalogue())) std::printf("%s\n", line.c_str());
  return 0;
}
