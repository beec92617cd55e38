#include "model/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/limits.h"
#include "base/random.h"
#include "model/text/keyed_hash.h"

namespace hearth::model {

namespace {

// Texts that end a generation whatever the file says of them, as in llama.cpp: files often name
// only one of several. Such an entry is a control token even where the file calls it a normal one.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek
};

// Fill-in-the-middle padding, repository and file marks end a generation too; of each group only
// one entry is taken: the file's key, else the first of these that the vocabulary has.
struct MarkGroup {
  std::string_view key;
  std::optional<std::uint64_t> TokenizerSource::*id;
  std::array<std::string_view, 5> texts;
};
constexpr MarkGroup kMarks[] = {
    {"tokenizer.ggml.fim_pad_token_id",
     &TokenizerSource::fim_pad,
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     &TokenizerSource::fim_repo,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id",
     &TokenizerSource::fim_separator,
     {"<|file_sep|>", "", "", "", ""}},
};

// Template marks that some files call user-defined: control tokens all the same, since no user's
// text may become one.
constexpr std::string_view kControlTexts[] = {
    "<|im_start|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<start_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<fim-prefix>",
    "<fim-suffix>",
    "<fim-middle>",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "<bos>",
    "<s>",
};

std::string entry_name(std::size_t at) {
  return "tokenizer.ggml.tokens, entry " + std::to_string(at);
}

}  // namespace

Status check_token_id(std::string_view key, const std::optional<std::uint64_t>& id,
                      std::size_t vocabulary) {
  REQUIRE(!id || *id < vocabulary, std::string(key) + " is " + std::to_string(*id) +
                                       ", outside of the vocabulary of " +
                                       std::to_string(vocabulary) + " entries");
  return ok_status();
}

Result<Vocabulary> Vocabulary::build(const TokenizerSource& source) {
  Vocabulary vocabulary;
  TRY_VOID(vocabulary.add_texts(source));
  TRY_VOID(vocabulary.add_kinds(source));
  TRY_VOID(vocabulary.index());
  TRY_VOID(vocabulary.mark_special(source));
  return vocabulary;
}

Status Vocabulary::add_texts(const TokenizerSource& source) {
  const auto& tokens = source.tokens;
  REQUIRE(!tokens.empty(), "tokenizer.ggml.tokens is empty: a model needs a vocabulary");
  REQUIRE(tokens.size() <= limits::kVocabulary, "tokenizer.ggml.tokens has " +
                                                    std::to_string(tokens.size()) +
                                                    " entries, over the limit "
                                                    "of " +
                                                    std::to_string(limits::kVocabulary));
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    REQUIRE(tokens[i].size() <= limits::kTokenBytes,
            entry_name(i) + ": " + std::to_string(tokens[i].size()) + " bytes, over the limit of " +
                std::to_string(limits::kTokenBytes));
    bytes += tokens[i].size();
    longest_ = std::max(longest_, tokens[i].size());
  }
  REQUIRE(bytes <= limits::kGiB, "tokenizer.ggml.tokens holds " + std::to_string(bytes) +
                                     " bytes of text, over the limit of " +
                                     std::to_string(limits::kGiB));
  texts_.reserve(bytes);
  starts_.reserve(tokens.size() + 1);
  for (const std::string_view token : tokens) {
    starts_.push_back(static_cast<std::uint32_t>(texts_.size()));
    texts_ += token;
  }
  starts_.push_back(static_cast<std::uint32_t>(texts_.size()));
  return ok_status();
}

Status Vocabulary::add_kinds(const TokenizerSource& source) {
  const std::size_t count = source.tokens.size();
  REQUIRE(source.types.empty() || source.types.size() == count,
          "tokenizer.ggml.token_type has " + std::to_string(source.types.size()) +
              " entries and tokenizer.ggml.tokens " + std::to_string(count));
  kinds_.assign(count, TokenKind::kNormal);
  for (std::size_t i = 0; i < source.types.size(); ++i) {
    const std::int64_t type = source.types[i];
    REQUIRE(type >= 0 && type <= 6, "tokenizer.ggml.token_type, entry " + std::to_string(i) + ": " +
                                        std::to_string(type) + " is none of 0 to 6");
    kinds_[i] = static_cast<TokenKind>(type);
  }
  return ok_status();
}

Status Vocabulary::index() {
  seed_ = SystemRandom().next();
  slots_.assign(std::bit_ceil(kinds_.size() * 2), Slot{});
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (text(token).empty()) continue;  // padding: stands for nothing, is found by nothing
    const std::uint64_t hash = hash_text(text(token), seed_);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t at = hash & mask;
    for (; slots_[at].token >= 0; at = (at + 1) & mask) {
      REQUIRE(slots_[at].tag != tag || text(slots_[at].token) != text(token),
              entry_name(i) + " has the text of entry " + std::to_string(slots_[at].token));
    }
    slots_[at] = {tag, token};
  }
  return ok_status();
}

TokenId Vocabulary::find(std::string_view text) const {
  const std::uint64_t hash = hash_text(text, seed_);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].token >= 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && this->text(slots_[at].token) == text) return slots_[at].token;
  }
  return -1;
}

Status Vocabulary::mark_special(const TokenizerSource& source) {
  const auto control = [&](TokenId token) {
    TokenKind& kind = kinds_[static_cast<std::size_t>(token)];
    if (kind != TokenKind::kUnknown) kind = TokenKind::kControl;
  };
  const auto end = [&](TokenId token) {
    control(token);
    end_tokens_.push_back(token);
  };
  const std::pair<std::string_view, const std::optional<std::uint64_t>*> keys[] = {
      {"tokenizer.ggml.eos_token_id", &source.eos},
      {"tokenizer.ggml.eot_token_id", &source.eot},
      {"tokenizer.ggml.eom_token_id", &source.eom},
  };
  for (const auto& [key, id] : keys) {
    TRY_VOID(check_token_id(key, *id, size()));
    if (*id) end(static_cast<TokenId>(**id));
  }
  for (const MarkGroup& group : kMarks) {
    const std::optional<std::uint64_t>& id = source.*group.id;
    TRY_VOID(check_token_id(group.key, id, size()));
    TokenId token = id ? static_cast<TokenId>(*id) : -1;
    for (const std::string_view text : group.texts) {
      if (token < 0) token = find(text);
    }
    if (token >= 0) end(token);
  }
  TRY_VOID(check_token_id("tokenizer.ggml.bos_token_id", source.bos, size()));
  if (source.bos) control(static_cast<TokenId>(*source.bos));
  for (const std::string_view text : kEndTexts) {
    if (const TokenId token = find(text); token >= 0) end(token);
  }
  for (const std::string_view text : kControlTexts) {
    const TokenId token = find(text);
    if (token >= 0 && kind(token) == TokenKind::kUserDefined) control(token);
  }
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  return ok_status();
}

}  // namespace hearth::model
