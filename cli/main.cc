// The one program. Verbs and their flags: client_verbs.cc, server_verbs.cc, machine_verbs.cc.

#include "cli/command/command_line.h"
#include "cli/process/own_process.h"

int main(int argc, char** argv) {
  hearth::cli::explain_lack();
  hearth::cli::CommandLine line(hearth::cli::add_all_verbs);
  return line.run(std::vector<std::string>(argv + 1, argv + argc));
}
