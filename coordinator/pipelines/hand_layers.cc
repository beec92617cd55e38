#include "coordinator/pipelines/hand_layers.h"

#include <algorithm>
#include <string_view>

#include "base/limits.h"
#include "base/number.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

Result<std::uint32_t> layer_of(std::string_view text) {
  const auto layer = parse_number<std::uint32_t>(text);
  REQUIRE(layer && *layer < limits::kModelLayers, "\"", text, "\" is not a layer from 0 to ",
          limits::kModelLayers - 1);
  return *layer;
}

Result<HandStage> stage_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::size_t dash = text.rfind('-');
  REQUIRE(colon != std::string_view::npos && dash != std::string_view::npos && colon < dash, "\"",
          text, "\" is not NODE:FIRST-LAST");
  HandStage stage;
  stage.node = text.substr(0, colon);
  TRY_VOID(check_node_name(stage.node));
  TRY(stage.layers.begin, layer_of(text.substr(colon + 1, dash - colon - 1)));
  TRY(const std::uint32_t last, layer_of(text.substr(dash + 1)));
  stage.layers.end = last + 1;
  return stage;
}

}  // namespace

Result<std::vector<HandStage>> parse_hand_layers(const std::string& text) {
  std::vector<HandStage> stages;
  std::string_view left = text;
  while (true) {
    const std::size_t comma = left.find(',');
    TRY(HandStage stage, stage_of(left.substr(0, comma)));
    const std::uint32_t begin = stages.empty() ? 0 : stages.back().layers.end;
    REQUIRE(stage.layers.begin == begin && stage.layers.begin < stage.layers.end, "the layers of ",
            stage.node, " must begin with ", begin, " and end with that or a later one");
    REQUIRE(std::ranges::count(stages, stage.node, &HandStage::node) == 0, stage.node,
            " is named twice");
    stages.push_back(std::move(stage));
    if (comma == std::string_view::npos) return stages;
    left.remove_prefix(comma + 1);
  }
}

}  // namespace hearth::coordinator
