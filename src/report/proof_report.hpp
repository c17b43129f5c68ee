// A proof for people and for programs (`nobounce.proof/1`), and a saved one read back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/proof.hpp>
#include <nobounce/result.hpp>
#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::report {

using ProofChanges = std::optional<std::vector<ProofChange>>;

/// Contradictions first, then the table; below each row why it is so, what is missing and whether
/// the direct path would help.
[[nodiscard]] std::string proof_text(const Proof& proof, Style style);

/// What changed since a saved proof, `name`.
[[nodiscard]] std::string changes_text(const std::vector<ProofChange>& changes,
                                       std::string_view name, Style style);

/// The document `nobounce.proof/1`. `changes` is null where nothing was compared.
[[nodiscard]] core::Json proof_json(const Proof& proof, const ProofChanges& changes = {});

/// A saved document. Strict: unknown, missing and misspelt fields are errors (origin input) that
/// name `name` and the field. `changes` is checked to be there and not kept.
[[nodiscard]] Result<Proof> proof_from_text(std::string_view text, std::string_view name);

}  // namespace nobounce::report
