.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl first
.protected first
.p2align 8
.type first,@function
first:
  s_getpc_b64 s[4:5]
  s_add_u32 s4, s4, table@rel32@lo+4
  s_addc_u32 s5, s5, table@rel32@hi+12
  s_getpc_b64 s[6:7]
  s_add_u32 s6, s6, helper@rel32@lo+4
  s_addc_u32 s7, s7, helper@rel32@hi+12
  s_getpc_b64 s[8:9]
  s_add_u32 s8, s8, counter@gotpcrel32@lo+4
  s_addc_u32 s9, s9, counter@gotpcrel32@hi+12
  s_getpc_b64 s[10:11]
  s_add_u32 s10, s10, outside@gotpcrel32@lo+4
  s_addc_u32 s11, s11, outside@gotpcrel32@hi+12
  s_getpc_b64 s[10:11]
  s_add_u32 s10, s10, hid@gotpcrel32@lo+4
  s_addc_u32 s11, s11, hid@gotpcrel32@hi+12
  s_getpc_b64 s[10:11]
  s_add_u32 s10, s10, num@gotpcrel32@lo+4
  s_addc_u32 s11, s11, num@gotpcrel32@hi+12
  s_mov_b32 s0, num
  s_endpgm
.size first, .-first
.section .text.helper,"ax",@progbits
.p2align 6
.hidden helper
.globl helper
.type helper,@function
helper:
  s_setpc_b64 s[30:31]
.size helper, .-helper
.section .rodata.tab,"a",@progbits
.p2align 4
.type table,@object
table: .long 1,2,3,4
  .long far-.
.size table,.-table
.data
.globl counter
.type counter,@object
.p2align 3
counter: .quad 5
 .quad counter
 .quad lcl
 .quad outside+8
 .quad lcl+8
lcl: .long 3
.hidden hid
.globl hid
hid: .long 9
.globl num
.hidden num
num = 0x1234
.section .data.rel.ro,"aw"
.p2align 3
.quad first
.quad table
.bss
.globl buf
buf: .zero 100
.comm shared_space,64,16
.section .rodata
.p2align 6
far: .long 7
.weak maybe
.section .mine,"a",@progbits
 .long 3
.section .debug_x,"",@progbits
 .quad first
 .long num
 .long far
 .quad maybe
.section .init_array,"aw",@init_array
.p2align 3
 .quad helper
