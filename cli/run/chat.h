// The interactive chat of `hearth run MODEL`: ollama's habits.
//
//   """ begins and ends a message of several lines
//   /set lists the parameters, /set NAME VALUE changes one; /set system TEXT, /set verbose, quiet
//   /clear forgets the conversation; /show; /bye or Ctrl-D leaves; /? helps
//   Ctrl-C stops the answer, not the program
#pragma once

#include "cli/run/answer.h"
#include "cli/run/run.h"

namespace hearth::cli {

int chat_loop(RunOptions options, Answerer& answerer);

}  // namespace hearth::cli
