// A hostile template and a hostile message: the first line is the template (with "\1" for a line
// break), the rest the content. Whatever happens, no limit is passed and user text stays user text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "model/chat_template.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;  // NOLINT
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  std::string source(input.substr(0, end));
  std::replace(source.begin(), source.end(), '\1', '\n');
  const auto parsed = model::ChatTemplate::parse(source);
  if (!parsed.ok()) {
    require(parsed.error().message.starts_with("chat template line "));
    return 0;
  }
  // No template can write this by itself: every byte of it must come back as user text.
  const std::string mark = "\xF3\xB0\x80\x81\xF3\xB0\x80\x82";
  const bool written =
      source.find('\xF3') != std::string::npos || source.find('\\') != std::string::npos;
  model::ChatTemplateInput request;
  request.messages = {{"system", "be kind"},
                      {"user", mark + std::string(end < size ? input.substr(end + 1) : "")},
                      {"assistant", mark}};
  request.bos_token = "<s>";
  request.eos_token = "</s>";
  request.unix_seconds = 1'717'245'296;
  const auto pieces = parsed.value()->render(request);
  if (!pieces.ok()) return 0;
  std::size_t total = 0;
  for (const model::PromptPiece& piece : pieces.value()) {
    require(!piece.text.empty());
    total += piece.text.size();
    if (!piece.from_user && !written) require(piece.text.find('\xF3') == std::string::npos);
  }
  require(total <= limits::kTemplateOutputBytes);
  return 0;
}
