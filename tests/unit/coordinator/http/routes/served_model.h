// A complete tiny model to serve: synthetic weights, its own tokenizer, ChatML.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/http/server.h"
#include "model/gguf/gguf.h"
#include "model/synthetic.h"

namespace hearth::coordinator::http {

class TestChatTemplate final : public model::ChatTemplate {
 public:
  Result<std::vector<model::PromptPiece>> render(
      const model::ChatTemplateInput& input) const override {
    std::vector<model::PromptPiece> out;
    for (const model::ChatMessage& message : input.messages) {
      out.push_back({"<|im_start|>" + message.role + "\n", false});
      out.push_back({message.content, true});
      out.push_back({"<|im_end|>\n", false});
    }
    if (input.add_generation_prompt) out.push_back({"<|im_start|>assistant\n", false});
    return out;
  }
};

struct TinyModel {
  std::shared_ptr<const model::GgufFile> file;
  ServedModel served;
};

// Written and read once a process.
inline const TinyModel& tiny_model() {
  static const TinyModel tiny = [] {
    model::SyntheticOptions options;
    const auto path = std::filesystem::temp_directory_path() /
                      ("hearth-http-test-" + std::to_string(getpid()) + ".gguf");
    const Status written = model::write_synthetic_model(path.string(), options);
    auto file = model::GgufFile::open(path.string());
    std::filesystem::remove(path);
    if (!written.ok() || !file.ok()) std::abort();
    TinyModel out;
    out.file = *file;
    auto spec = model::ModelSpec::read(*out.file);
    auto tokenizer = model::Tokenizer::load(*out.file);
    if (!spec.ok() || !tokenizer.ok()) std::abort();
    out.served.id = "tiny";
    out.served.created = 1;
    out.served.fingerprint = "fp_test";
    out.served.spec = *spec;
    out.served.tokenizer = *tokenizer;
    out.served.chat_template = std::make_shared<TestChatTemplate>();
    return out;
  }();
  return tiny;
}

}  // namespace hearth::coordinator::http
