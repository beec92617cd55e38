#include "coordinator/http/openai/unsupported.h"

#include <algorithm>
#include <array>
#include <span>

namespace hearth::coordinator::http {
namespace {

struct Unsupported {
  std::string_view name;
  std::string_view neutral;  // a JSON array: the values that change nothing, beside null
};

constexpr std::string_view kNone = "[]";  // every value changes the answer
constexpr std::string_view kOff = R"([false, 0, "", [], {}])";
constexpr std::string_view kEmpty = "[[]]";
constexpr std::string_view kOne = "[1]";

constexpr std::array kFields = {
    // tools, and what an answer looks like
    Unsupported{"functions", kEmpty},
    Unsupported{"function_call", R"(["none", "auto"])"},
    Unsupported{"format", kOff},
    Unsupported{"modalities", R"([["text"], []])"},
    Unsupported{"audio", kNone},
    Unsupported{"web_search_options", kNone},
    Unsupported{"plugins", kEmpty},
    Unsupported{"prompt_logprobs", "[false]"},
    Unsupported{"n_probs", "[0]"},
    Unsupported{"skip_special_tokens", "[true]"},
    Unsupported{"include_stop_str_in_output", "[false]"},
    Unsupported{"echo", "[false]"},
    // how much a model thinks
    Unsupported{"reasoning_budget", "[-1]"},
    Unsupported{"thinking", kNone},
    Unsupported{"thinking_budget", kNone},
    Unsupported{"think", kNone},
    Unsupported{"verbosity", R"(["medium"])"},
    // the prompt
    Unsupported{"chat_template", kOff},
    Unsupported{"template", kOff},
    Unsupported{"add_special_tokens", kNone},
    Unsupported{"documents", kEmpty},
    Unsupported{"images", kEmpty},
    Unsupported{"image_data", kEmpty},
    Unsupported{"input_extra", kEmpty},
    Unsupported{"input_prefix", kOff},
    Unsupported{"input_suffix", kOff},
    Unsupported{"instructions", kOff},
    Unsupported{"negative_prompt", kOff},
    Unsupported{"prompt_embeds", kEmpty},
    Unsupported{"prompt_mode", kNone},
    Unsupported{"raw", "[false]"},
    Unsupported{"safe_prompt", "[false]"},
    Unsupported{"system", kOff},
    Unsupported{"transforms", kEmpty},
    Unsupported{"truncate", kOff},
    Unsupported{"truncate_prompt_tokens", kNone},
    // where an answer ends
    Unsupported{"max_new_tokens", kNone},
    Unsupported{"max_output_tokens", kNone},
    Unsupported{"max_tokens_to_sample", kNone},
    Unsupported{"n_predict", kNone},
    Unsupported{"num_predict", kNone},
    Unsupported{"min_tokens", "[0]"},
    Unsupported{"stop_regex", kOff},
    Unsupported{"stop_sequences", kEmpty},
    Unsupported{"stop_token_ids", kEmpty},
    Unsupported{"stopping_strings", kEmpty},
    Unsupported{"ban_eos_token", "[false]"},
    Unsupported{"t_max_predict_ms", "[0, -1]"},
    // how a token is chosen
    Unsupported{"allowed_token_ids", kEmpty},
    Unsupported{"bad_words", kEmpty},
    Unsupported{"banned_tokens", kOff},
    Unsupported{"custom_token_bans", kOff},
    Unsupported{"cfg_scale", kOne},
    Unsupported{"do_sample", "[true]"},
    Unsupported{"dry_multiplier", "[0]"},
    Unsupported{"dynamic_temperature", "[false]"},
    Unsupported{"dynatemp_range", "[0]"},
    Unsupported{"encoder_repetition_penalty", kOne},
    Unsupported{"epsilon_cutoff", "[0]"},
    Unsupported{"eta_cutoff", "[0]"},
    Unsupported{"guidance_scale", kOne},
    Unsupported{"logits_processors", kEmpty},
    Unsupported{"lora", kOff},
    Unsupported{"min_keep", "[0, 1]"},
    Unsupported{"mirostat", "[0]"},
    Unsupported{"mirostat_mode", "[0]"},
    Unsupported{"no_repeat_ngram_size", "[0]"},
    Unsupported{"num_beams", kOne},
    Unsupported{"options", "[{}]"},
    Unsupported{"penalty_alpha", "[0]"},
    Unsupported{"random_seed", kNone},
    Unsupported{"samplers", kEmpty},
    Unsupported{"smoothing_factor", "[0]"},
    Unsupported{"temperature_last", "[false]"},
    Unsupported{"tfs", kOne},
    Unsupported{"tfs_z", kOne},
    Unsupported{"top_a", "[0]"},
    Unsupported{"top_n_sigma", "[0, -1]"},
    Unsupported{"typical_p", kOne},
    Unsupported{"use_beam_search", "[false]"},
    Unsupported{"xtc_probability", "[0]"},
};

// Fields that only a chat has.
constexpr std::array kChatFields = {
    Unsupported{"tools", kEmpty},
    Unsupported{"tool_choice", R"(["none", "auto"])"},
    Unsupported{"reasoning", "[{}]"},
    Unsupported{"reasoning_effort", kNone},
    Unsupported{"enable_thinking", kNone},
    Unsupported{"chat_template_kwargs", "[{}]"},
    Unsupported{"add_generation_prompt", "[true]"},
    Unsupported{"continue_final_message", "[false]"},
};

constexpr std::array kMessageFields = {
    Unsupported{"function_call", kNone}, Unsupported{"audio", kNone},
    Unsupported{"images", kEmpty},       Unsupported{"partial", "[false]"},
    Unsupported{"prefix", "[false]"},    Unsupported{"refusal", kOff},
    Unsupported{"thinking", kOff},
};

void refuse(FieldReader& fields, std::span<const Unsupported> list, std::string_view supported) {
  for (const Unsupported& each : list) {
    const Json* value = fields.find(each.name.data());
    if (value == nullptr || each.name == supported) continue;
    const Json neutral = Json::parse(each.neutral);
    if (std::find(neutral.begin(), neutral.end(), *value) != neutral.end()) continue;
    fields.refuse(each.name.data(),
                  "is not supported yet, and ignoring it would change the answer; omit it");
  }
}

}  // namespace

void refuse_unsupported(FieldReader& request, std::string_view supported) {
  refuse(request, kFields, supported);
}

void refuse_chat_fields(FieldReader& request) { refuse(request, kChatFields, {}); }

void refuse_unsupported_message(FieldReader& message) { refuse(message, kMessageFields, {}); }

}  // namespace hearth::coordinator::http
