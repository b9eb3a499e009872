"""Rewritings of LLVM's text that make another instruction of one: the data of the operators in `mutations`."""

OPCODES = (
    (r"_add_", "_sub_"), (r"_sub_", "_add_"), (r"_subrev_", "_sub_"), (r"_mul_", "_add_"), (r"_fma_", "_mad_"),
    (r"_addc_", "_subb_"), (r"_lshlrev_", "_lshrrev_"), (r"_lshrrev_", "_ashrrev_"), (r"_ashrrev_", "_lshrrev_"),
    (r"_lshl_b", "_lshr_b"), (r"_lshr_b", "_lshl_b"), (r"_ashr_i", "_lshr_b"), (r"_and_b", "_or_b"),
    (r"_or_b", "_and_b"), (r"_xor_b", "_and_b"), (r"_andn2_", "_orn2_"), (r"_and_not1_", "_or_not1_"),
    (r"_max_", "_min_"), (r"_min_", "_max_"), (r"_lt_", "_le_"), (r"_le_", "_lt_"), (r"_gt_", "_ge_"),
    (r"_ge_", "_gt_"), (r"_eq_", "_lt_"), (r"_(ne|lg)_", "_eq_"), (r"_(lt|le|gt|ge|max|min|mul_hi)_u", r"_\1_i"),
    (r"_(lt|le|gt|ge|max|min|mul_hi)_i", r"_\1_u"), (r"_exp_", "_log_"), (r"_rcp_", "_rsq_"), (r"_sqrt_", "_rcp_"),
    (r"_mov_b32", "_not_b32"), (r"_cvt_f32_i32", "_cvt_f32_u32"), (r"_cvt_f32_u32", "_cvt_f32_i32"),
    (r"_bfe_u32", "_bfe_i32"), (r"_scc0", "_scc1"), (r"_scc1", "_scc0"), (r"_vccz", "_vccnz"), (r"_vccnz", "_vccz"),
    (r"_execz", "_execnz"), (r"_ubyte", "_sbyte"), (r"_ushort", "_sshort"), (r"_u8", "_i8"), (r"_u16", "_i16"),
    (r"_pk_add_f16", "_pk_mul_f16"), (r"_pk_mul_f32", "_pk_add_f32"), (r"_bf16", "_f16"), (r"_f16$", "_bf16"),
    (r"_ffbh_", "_ffbl_"), (r"_alignbit_", "_alignbyte_"), (r"_lshl_add_", "_lshl_or_"), (r"_add_lshl_", "_add3_"),
    (r"_xad_", "_lshl_add_"), (r"_and_or_", "_or3_"), (r"_saveexec_", "_xor_saveexec_"), (r"_load_b64", "_load_b32"),
    (r"_cndmask_b32", "_add_f32"), (r"_readfirstlane_", "_mov_"), (r"_dwordx4", "_dwordx3"), (r"_rndne_", "_floor_"),
)  # fmt: skip
"""(pattern, replacement) in mnemonics: another meaning with the same operands."""

MODIFIERS = (
    (r"op_sel:\[0", "op_sel:[1"), (r"op_sel:\[1", "op_sel:[0"), (r"op_sel_hi:\[0", "op_sel_hi:[1"),
    (r"op_sel_hi:\[1", "op_sel_hi:[0"), (r" op_sel_hi:\[[01,]+\]", ""), (r"neg_lo:\[0", "neg_lo:[1"),
    (r"neg_hi:\[1", "neg_hi:[0"), (r"row_shr:1\b", "row_shr:2"), (r"row_shr:(2|4|8)\b", "row_shr:1"),
    (r"row_shl:\d+", "row_shl:3"), (r"row_ror:\d+", "row_ror:3"), (r"row_xmask:\d+", "row_xmask:5"),
    (r"row_bcast:15", "row_bcast:31"), (r"row_bcast:31", "row_bcast:15"), (r"row_mask:0xf", "row_mask:0x5"),
    (r"row_mask:0xa", "row_mask:0xc"), (r"bank_mask:0xf", "bank_mask:0x7"), (r" bound_ctrl:[01]", ""),
    (r"quad_perm:\[\d,\d", "quad_perm:[2,2"), (r"dst_sel:BYTE_\d", "dst_sel:WORD_1"),
    (r"dst_sel:WORD_1", "dst_sel:WORD_0"), (r"src0_sel:BYTE_(0|1)", "src0_sel:BYTE_2"),
    (r"src0_sel:WORD_1", "src0_sel:WORD_0"), (r"src1_sel:WORD_1", "src1_sel:WORD_0"),
    (r"dst_unused:UNUSED_PRESERVE", "dst_unused:UNUSED_PAD"),
    (r"(dst_sel:[BW]\w+) dst_unused:UNUSED_PAD", r"\1 dst_unused:UNUSED_SEXT"),
    (r" clamp", ""), (r" mul:2", " mul:4"), (r" glc", ""), (r" dlc", ""), (r" sc0", ""), (r" sc1", ""),
    (r" offen", ""), (r" idxen", ""), (r" gds", ""), (r" lds", ""), (r" scope:SCOPE_\w+", ""),
    (r" th:TH_ATOMIC_RETURN", ""), (r"-(v\d+|s\d+)", r"\1"), (r"\|(v\d+|s\d+)\|", r"\1"),
    (r"^(v_(?!cmp)\w+_f32_e64 .*)$", r"\1 clamp"), (r"^(v_(?!cmp)\w+_f32_e64 .*)$", r"\1 mul:2"),
    (r"(\bv\d+)\.l\b", r"\1.h"),
    (r"(\bv\d+)\.h\b", r"\1.l"), (r"cbsz:\d", "cbsz:1"), (r" cbsz:\d", ""), (r" blgp:\d", ""),
)  # fmt: skip
"""(pattern, replacement) in the whole text: another reading of the same operands, or another form of memory access."""
