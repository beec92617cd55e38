// The verbs of machine_verbs.cc alone: what measures and checks a machine without a network, and
// builds without any network library.

#include "cli/command/command_line.h"

int main(int argc, char** argv) {
  hearth::cli::CommandLine line(hearth::cli::add_machine_verbs);
  return line.run(std::vector<std::string>(argv + 1, argv + argc));
}
