#include "model/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/random.h"
#include "model/text/keyed_hash.h"

namespace hearth::model {

namespace {

// Marks of chats and of fill-in-the-middle, known by their text, because files often name or type
// only some of them. Each group holds the spellings of one mark. A spelling that the file calls a
// normal or user-defined token is text (Gemma's "<s>" is an HTML tag), unless the vocabulary has no
// other spelling and the file's key names none: then it is the mark, with a wrong type in the file.
struct MarkGroup {
  std::optional<std::uint64_t> TokenizerSource::*id = nullptr;  // the file's key for this mark
  bool ends = false;                                            // it ends a generation
  std::array<std::string_view, 14> texts;                       // empty ones last
};
constexpr MarkGroup kMarks[] = {
    // The end of a turn.
    {&TokenizerSource::eot,
     true,
     {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
      "<end_of_turn>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "<end_of_utterance>", "<turn|>"}},
    // Gemma 4 has called a tool and waits for the answer.
    {nullptr, true, {"<|tool_response>"}},
    // The end of a text; the last is DeepSeek's.
    {&TokenizerSource::eos,
     true,
     {"<|endoftext|>", "</s>", "[EOS]", "<|end_of_text|>", "<eos>",
      "<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"}},
    // Marks that no user's text may become.
    {&TokenizerSource::bos, false, {"<|begin_of_text|>", "<bos>", "<s>"}},
    {nullptr, false, {"<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|turn>"}},
    {nullptr, false, {"<|end_header_id|>"}},
    {nullptr, false, {"<|system|>"}},
    {nullptr, false, {"<|user|>"}},
    {nullptr, false, {"<|assistant|>"}},
    {nullptr, false, {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>"}},
    {nullptr, false, {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>"}},
    {nullptr, false, {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>"}},
};

// Fill-in-the-middle padding, repository and file marks end a generation too; of each group only
// one entry is taken: the file's key, else the first of these that the file calls special, else the
// first that the vocabulary has.
struct FillMark {
  std::string_view key;
  std::optional<std::uint64_t> TokenizerSource::*id;
  std::array<std::string_view, 5> texts;
};
constexpr FillMark kFillMarks[] = {
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

std::string entry_name(std::size_t at) {
  return "tokenizer.ggml.tokens, entry " + std::to_string(at);
}

}  // namespace

static_assert(limits::kGiB <= std::numeric_limits<std::uint32_t>::max(),
              "a place in the texts has 32 bits");
static_assert(limits::kVocabulary <= std::numeric_limits<TokenId>::max(), "entries have token ids");

Status check_token_id(std::string_view key, const std::optional<std::uint64_t>& id,
                      std::size_t vocabulary) {
  REQUIRE(!id || *id < vocabulary, key, " is ", *id, ", outside of the vocabulary of ", vocabulary,
          " entries");
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
  REQUIRE(tokens.size() <= limits::kVocabulary, "tokenizer.ggml.tokens has ", tokens.size(),
          " entries, over the limit "
          "of ",
          limits::kVocabulary);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    REQUIRE(tokens[i].size() <= limits::kTokenBytes, entry_name(i), ": ", tokens[i].size(),
            " bytes, over the limit of ", limits::kTokenBytes);
    bytes += tokens[i].size();
    longest_ = std::max(longest_, tokens[i].size());
  }
  REQUIRE(bytes <= limits::kGiB, "tokenizer.ggml.tokens holds ", bytes,
          " bytes of text, over the limit of ", limits::kGiB);
  texts_.reserve(bytes);
  starts_.reserve(tokens.size() + 1);
  for (const std::string_view token : tokens) {
    starts_.push_back(static_cast<std::uint32_t>(texts_.size()));
    texts_ += token;
  }
  starts_.push_back(static_cast<std::uint32_t>(texts_.size()));
  INVARIANT(starts_.size() == tokens.size() + 1, "every entry has its text");
  return ok_status();
}

Status Vocabulary::add_kinds(const TokenizerSource& source) {
  const std::size_t count = source.tokens.size();
  REQUIRE(source.types.empty() || source.types.size() == count, "tokenizer.ggml.token_type has ",
          source.types.size(), " entries and tokenizer.ggml.tokens ", count);
  kinds_.assign(count, TokenKind::kNormal);
  for (std::size_t i = 0; i < source.types.size(); ++i) {
    const std::int64_t type = source.types[i];
    REQUIRE(type >= 0 && type <= 6, "tokenizer.ggml.token_type, entry ", i, ": ", type,
            "; it must be 0 to 6");
    kinds_[i] = static_cast<TokenKind>(type);
  }
  return ok_status();
}

Status Vocabulary::index() {
  seed_ = SystemRandom().next();
  slots_.assign(std::bit_ceil(kinds_.size() * 2), Slot{});
  INVARIANT(slots_.size() > kinds_.size(), "a search ends at a free slot");
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (text(token).empty()) continue;  // padding: no text is encoded as it
    const std::uint64_t hash = hash_text(text(token), seed_);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t at = hash & mask;
    for (; slots_[at].token >= 0; at = (at + 1) & mask) {
      REQUIRE(slots_[at].tag != tag || text(slots_[at].token) != text(token), entry_name(i),
              " has the text of entry ", slots_[at].token);
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
    INVARIANT(token >= 0 && static_cast<std::size_t>(token) < kinds_.size(), "an entry's id");
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
  for (const FillMark& mark : kFillMarks) {
    const std::optional<std::uint64_t>& id = source.*mark.id;
    TRY_VOID(check_token_id(mark.key, id, size()));
    TokenId token = id ? static_cast<TokenId>(*id) : -1;
    for (const bool any : {false, true}) {
      for (const std::string_view text : mark.texts) {
        if (const TokenId one = find(text); token < 0 && one >= 0 && (any || special(one))) {
          token = one;
        }
      }
    }
    if (token >= 0) end(token);
  }
  TRY_VOID(check_token_id("tokenizer.ggml.bos_token_id", source.bos, size()));
  if (source.bos) control(static_cast<TokenId>(*source.bos));
  for (const MarkGroup& group : kMarks) {
    const auto is_special = [this](std::string_view text) {
      const TokenId token = find(text);
      return token >= 0 && special(token);
    };
    const bool named = group.id != nullptr && (source.*group.id).has_value();
    const bool has_other =
        !source.types.empty() && (named || std::ranges::any_of(group.texts, is_special));
    for (const std::string_view text : group.texts) {
      const TokenId token = find(text);
      if (token < 0) continue;
      const bool user_defined = kind(token) == TokenKind::kUserDefined;
      if (has_other && (user_defined || kind(token) == TokenKind::kNormal)) continue;
      if (group.ends) {
        end(token);
      } else if (user_defined) {
        control(token);
      }
    }
  }
  // If <|return|> and <|call|> both end turns, as in gpt-oss, <|end|> ends only a message within a
  // turn.
  const auto ends = [&](std::string_view text) {
    return std::ranges::count(end_tokens_, find(text));
  };
  if (ends("<|return|>") > 0 && ends("<|call|>") > 0) std::erase(end_tokens_, find("<|end|>"));
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  return ok_status();
}

}  // namespace hearth::model
