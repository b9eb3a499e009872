.text
.macro k n
.globl kern\n
.p2align 8
.type kern\n,@function
kern\n: s_endpgm
.size kern\n,.-kern\n
.endm
.irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,a,b,c,d,e,f
k \n
.endr
