#include "coordinator/http/openai/sampling_fields.h"

#include <charconv>
#include <limits>

#include "base/limits.h"
#include "proto/frame.h"

namespace hearth::coordinator::http {
namespace {

constexpr double kBiasRange = 100.0;

// A token id written as a JSON number, or as the string that JSON objects need for keys.
std::optional<TokenId> bias_token(const Json& value, std::uint32_t vocabulary) {
  std::optional<std::int64_t> id;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::int64_t parsed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error == std::errc() && end == text.data() + text.size()) id = parsed;
  } else {
    id = as_integer(value);
  }
  if (!id || *id < 0 || *id >= static_cast<std::int64_t>(vocabulary)) return std::nullopt;
  return static_cast<TokenId>(*id);
}

void add_bias(FieldReader& fields, const Json& token, const Json& bias, std::uint32_t vocabulary,
              GenerationRequest& request) {
  const auto id = bias_token(token, vocabulary);
  if (!id) {
    return fields.fail("logit_bias", "names a token that is not an id from 0 to " +
                                         std::to_string(vocabulary - 1));
  }
  float value = -std::numeric_limits<float>::infinity();  // false: never
  if (bias.is_number()) {
    const double number = bias.get<double>();
    if (!(number >= -kBiasRange && number <= kBiasRange)) {
      return fields.fail("logit_bias", "has a bias outside -100 to 100");
    }
    value = static_cast<float>(number);
  } else if (bias != Json(false)) {
    return fields.fail("logit_bias", "has a bias that is neither a number nor false");
  }
  request.sampling.logit_bias.emplace_back(*id, value);
}

// {"50256": -100} as OpenAI, [[50256, false]] as llama.cpp.
void parse_logit_bias(FieldReader& fields, std::uint32_t vocabulary, GenerationRequest& request) {
  const Json* map = fields.find("logit_bias");
  if (map == nullptr) return;
  if (!map->is_object() && !map->is_array()) {
    return fields.fail("logit_bias", "must map token ids to numbers");
  }
  if (map->size() > limits::kLogitBias) {
    return fields.fail("logit_bias",
                       "has more than " + std::to_string(limits::kLogitBias) + " entries");
  }
  if (map->is_object()) {
    for (const auto& [key, bias] : map->items()) {
      add_bias(fields, Json(key), bias, vocabulary, request);
    }
    return;
  }
  for (const Json& pair : *map) {
    if (!pair.is_array() || pair.size() != 2) {
      return fields.fail("logit_bias", "must hold pairs of token id and bias");
    }
    add_bias(fields, pair[0], pair[1], vocabulary, request);
  }
}

void parse_penalties(FieldReader& fields, SamplingParams& sampling) {
  if (const auto v = fields.number("presence_penalty", -100, 100)) {
    sampling.presence_penalty = static_cast<float>(*v);
  }
  if (const auto v = fields.number("frequency_penalty", -100, 100)) {
    sampling.frequency_penalty = static_cast<float>(*v);
  }
  for (const char* name : {"repetition_penalty", "repeat_penalty"}) {
    const auto v = fields.number(name, 0, 100);
    if (v && static_cast<float>(*v) <= 0.0F) return fields.fail(name, "must be more than 0");
    if (v) sampling.repetition_penalty = static_cast<float>(*v);
  }
}

// The whole of int64, negative ones in two's complement, as clients of OpenAI send it.
void parse_seed(FieldReader& fields, GenerationRequest& request) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  if (const auto v = fields.integer("seed", kLow, kHigh)) {
    request.seed = static_cast<std::uint64_t>(*v);
  }
}

void parse_trust(FieldReader& fields, GenerationRequest& request) {
  const Json* trust = fields.find("trust");
  if (trust == nullptr) return;
  if (!trust->is_array() || trust->empty() || trust->size() > limits::kStages) {
    return fields.fail(
        "trust", "must be an array of 1 to " + std::to_string(limits::kStages) + " names of nodes");
  }
  for (const Json& name : *trust) {
    const bool valid = name.is_string() && check_node_name(name.get_ref<const std::string&>()).ok();
    if (!valid)
      return fields.fail("trust", "must hold names of nodes, as hearth status shows them");
    request.asked.trust.push_back(name.get<std::string>());
  }
}

void parse_hearth(FieldReader& fields, GenerationRequest& request) {
  const Json* wish = fields.find("hearth");
  if (wish == nullptr) return;
  FieldReader inner(*wish, "hearth.");
  if (const auto name = inner.string("verify")) {
    request.asked.verify = verify_named(*name);
    if (!request.asked.verify) inner.fail("verify", "must be none, spot or full");
  }
  if (const auto name = inner.string("min_level")) {
    request.asked.min_level = level_named(*name);
    if (!request.asked.min_level) {
      inner.fail("min_level", "must be newcomer, probation, regular or veteran");
    }
  }
  request.asked.share = inner.boolean("share").value_or(false);
  if (inner.failed()) fields.fail(inner.error());
}

}  // namespace

void parse_sampling(FieldReader& fields, const ModelBounds& bounds, GenerationRequest& request) {
  SamplingParams& sampling = request.sampling;
  if (const auto v = fields.number("temperature", 0, 100)) {
    sampling.temperature = static_cast<float>(*v);
  }
  if (const auto v = fields.number("top_p", 0, 1)) {
    sampling.top_p = static_cast<float>(*v);
    if (sampling.top_p <= 0.0F) fields.fail("top_p", "must be more than 0 and at most 1");
  }
  if (const auto v = fields.number("min_p", 0, 1)) sampling.min_p = static_cast<float>(*v);
  constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
  if (const auto v = fields.integer("top_k", -1, kInt32Max)) {
    // -1 (vLLM) and anything that covers the vocabulary mean off.
    const bool off = *v <= 0 || *v >= static_cast<std::int64_t>(bounds.vocabulary);
    sampling.top_k = off ? 0 : static_cast<std::uint32_t>(*v);
  }
  parse_penalties(fields, sampling);
  parse_seed(fields, request);
  parse_logit_bias(fields, bounds.vocabulary, request);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.return_hashes = fields.boolean("return_hashes").value_or(false);
  parse_trust(fields, request);
  parse_hearth(fields, request);
  if (const auto v = fields.integer("n", 1, limits::kChoices)) {
    request.n = static_cast<std::uint32_t>(*v);
  }
}

void parse_stop(FieldReader& fields, GenerationRequest& request) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    request.stop.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    if (stop->size() > limits::kStopStrings) {
      return fields.fail("stop",
                         "has more than " + std::to_string(limits::kStopStrings) + " strings");
    }
    for (const Json& text : *stop) {
      if (!text.is_string()) return fields.fail("stop", "must hold strings");
      request.stop.push_back(text.get<std::string>());
    }
  } else {
    return fields.fail("stop", "must be a string or an array of strings");
  }
  for (const std::string& text : request.stop) {
    if (text.empty()) return fields.fail("stop", "must not hold an empty string");
    if (text.size() > limits::kStopStringBytes) {
      return fields.fail("stop", "has a string longer than " +
                                     std::to_string(limits::kStopStringBytes) + " bytes");
    }
  }
}

void parse_stream(FieldReader& fields, GenerationRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage").value_or(false);
  if (inner.failed()) fields.fail(inner.error());
}

}  // namespace hearth::coordinator::http
