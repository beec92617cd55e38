// The interactive chat of `hearth run MODEL`: ollama's habits.
//
//   """ begins and ends a message of several lines
//   /set system TEXT, /set parameter NAME VALUE, /set verbose, /set quiet
//   /clear forgets the conversation; /show; /bye or Ctrl-D leaves; /? helps
//   Ctrl-C stops the answer, not the program
#pragma once

#include "cli/answer.h"
#include "cli/run.h"

namespace hearth::cli {

int chat_loop(RunOptions options, Answerer& answerer);

// "/set parameter temperature 0.5": changes options; a sentence when it cannot.
Status set_parameter(RunOptions& options, const std::string& name, const std::string& value);

}  // namespace hearth::cli
