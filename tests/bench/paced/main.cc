// The program, on a machine whose GPUs are paced_device.cc.
#include <string>
#include <vector>

#include "cli/command/command_line.h"

int main(int argc, char** argv) {
  hearth::cli::CommandLine line(hearth::cli::add_all_verbs);
  return line.run(std::vector<std::string>(argv + 1, argv + argc));
}
