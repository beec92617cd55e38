#include "model/text/tokenizer.h"

#include <limits>
#include <optional>
#include <variant>

#include "model/text/bpe.h"
#include "model/text/spaced_bpe.h"
#include "model/text/spm.h"
#include "model/text/vocabulary_tokenizer.h"

namespace hearth::model {

namespace {

Error wrong_kind(std::string_view key, std::string_view wanted) {
  return Error::invalid(key, " is not ", wanted);
}

// An array of the file, or null where the key is absent.
Result<const GgufArray*> find_array(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return static_cast<const GgufArray*>(nullptr);
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) return wrong_kind(key, "an array");
  return array;
}

Result<std::span<const std::string_view>> find_texts(const GgufFile& file, std::string_view key) {
  TRY(const GgufArray* array, find_array(file, key));
  if (array == nullptr) return std::span<const std::string_view>();
  const auto* texts = std::get_if<std::vector<std::string_view>>(&array->items);
  if (texts == nullptr) return wrong_kind(key, "an array of strings");
  return std::span<const std::string_view>(*texts);
}

// Numbers of any kind of the file as T.
template <typename T>
Result<std::vector<T>> find_numbers(const GgufFile& file, std::string_view key, bool fractions) {
  TRY(const GgufArray* array, find_array(file, key));
  if (array == nullptr) return std::vector<T>();
  const auto convert = [](const auto& items) { return std::vector<T>(items.begin(), items.end()); };
  if (const auto* items = std::get_if<std::vector<std::uint64_t>>(&array->items)) {
    return convert(*items);
  }
  if (const auto* items = std::get_if<std::vector<std::int64_t>>(&array->items)) {
    return convert(*items);
  }
  if (const auto* items = std::get_if<std::vector<double>>(&array->items); items && fractions) {
    return convert(*items);
  }
  return wrong_kind(key, fractions ? "an array of numbers" : "an array of integers");
}

template <typename T>
Status optional_key(std::optional<T>& out, Result<T> value) {
  if (value.ok()) {
    out = *std::move(value);
  } else if (value.error().code != ErrorCode::kNotFound) {
    return std::move(value).error();
  }
  return ok_status();
}

// Without one of its lists a tokenizer would give other tokens than the model was trained with.
Status check_lists(const GgufFile& file, std::string_view model) {
  const auto need = [&](std::string_view key) -> Status {
    REQUIRE(file.find(key) != nullptr, "key '", key, "' is missing; a tokenizer of kind ", model,
            " needs it: convert the model again");
    return ok_status();
  };
  TRY_VOID(need("tokenizer.ggml.tokens"));
  if (model == "gpt2" || model == "gemma4") TRY_VOID(need("tokenizer.ggml.merges"));
  if (model == "gemma4") return need("tokenizer.ggml.token_type");
  if (model != "llama") return ok_status();
  TRY_VOID(need("tokenizer.ggml.scores"));
  return need("tokenizer.ggml.token_type");
}

// Writers say -1 for "no such token", some of them as an unsigned number of 32 bits. Any other id
// outside of the vocabulary is an error.
bool says_none(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return false;
  const auto* number = std::get_if<std::int64_t>(value);
  const auto* natural = std::get_if<std::uint64_t>(value);
  return (number != nullptr && *number == -1) ||
         (natural != nullptr && *natural == std::numeric_limits<std::uint32_t>::max());
}

Status read_ids(const GgufFile& file, TokenizerSource& source) {
  const std::pair<std::string_view, std::optional<std::uint64_t>*> keys[] = {
      {"tokenizer.ggml.bos_token_id", &source.bos},
      {"tokenizer.ggml.eos_token_id", &source.eos},
      {"tokenizer.ggml.eot_token_id", &source.eot},
      {"tokenizer.ggml.eom_token_id", &source.eom},
      {"tokenizer.ggml.unknown_token_id", &source.unknown},
      {"tokenizer.ggml.fim_pad_token_id", &source.fim_pad},
      {"tokenizer.ggml.fim_rep_token_id", &source.fim_repo},
      {"tokenizer.ggml.fim_sep_token_id", &source.fim_separator},
  };
  for (const auto& [key, id] : keys) {
    if (!says_none(file, key)) TRY_VOID(optional_key(*id, file.get_uint(key)));
  }
  // Only templates may name these, so a broken one counts as absent.
  const std::pair<std::string_view, std::optional<std::uint64_t>*> named[] = {
      {"tokenizer.ggml.padding_token_id", &source.padding},
      {"tokenizer.ggml.seperator_token_id", &source.separator},  // as converters spell it
      {"tokenizer.ggml.cls_token_id", &source.classifier},
      {"tokenizer.ggml.mask_token_id", &source.mask},
  };
  for (const auto& [key, id] : named) {
    if (const auto token = file.get_uint(key); token.ok()) *id = *token;
  }
  TRY_VOID(optional_key(source.add_bos, file.get_bool("tokenizer.ggml.add_bos_token")));
  TRY_VOID(optional_key(source.add_eos, file.get_bool("tokenizer.ggml.add_eos_token")));
  return optional_key(source.add_space_prefix, file.get_bool("tokenizer.ggml.add_space_prefix"));
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const TokenizerSource& source) {
  TRY_VOID(check_token_id("tokenizer.ggml.unknown_token_id", source.unknown, source.tokens.size()));
  if (source.model == "gpt2") return BpeTokenizer::build(source);
  if (source.model == "llama") return SpmTokenizer::build(source);
  if (source.model == "gemma4") return SpacedBpeTokenizer::build(source);
  return Error::of(ErrorCode::kUnsupported, "tokenizer.ggml.model is \"", source.model,
                   "\"; known are gpt2, llama and gemma4");
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const GgufFile& file) {
  TokenizerSource source;
  TRY(const std::string model, file.get_string("tokenizer.ggml.model"));
  source.model = model;
  TRY_VOID(check_lists(file, model));
  std::optional<std::string> pre;
  TRY_VOID(optional_key(pre, file.get_string("tokenizer.ggml.pre")));
  if (pre) source.pre = *pre;
  TRY(source.tokens, find_texts(file, "tokenizer.ggml.tokens"));
  TRY(source.merges, find_texts(file, "tokenizer.ggml.merges"));
  TRY(const std::vector<std::int64_t> types,
      find_numbers<std::int64_t>(file, "tokenizer.ggml.token_type", false));
  TRY(const std::vector<double> scores, find_numbers<double>(file, "tokenizer.ggml.scores", true));
  source.types = types;
  source.scores = scores;
  TRY_VOID(read_ids(file, source));
  return make_tokenizer(source);
}

}  // namespace hearth::model
