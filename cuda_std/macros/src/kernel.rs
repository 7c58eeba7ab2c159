//! `#[kernel]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericParam, Generics, Ident, ItemFn, Lit, PatType,
    ReturnType, Signature, Token, Type, parse_quote,
};

/// What the attribute's parentheses hold.
#[derive(Default)]
struct Bounds {
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    cluster: Option<[Expr; 3]>,
    /// What stands behind the function's name in the entry's.
    suffix: Option<String>,
}

impl Parse for Bounds {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut bounds = Bounds::default();
        let mut min_blocks_name = None;
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let value: Expr = input.parse()?;
            let seen_before = match name.to_string().as_str() {
                "max_threads" => bounds.max_threads.replace(value).is_some(),
                "min_blocks" => {
                    min_blocks_name = Some(name.clone());
                    bounds.min_blocks.replace(value).is_some()
                }
                "cluster" => bounds.cluster.replace(cluster(value)?).is_some(),
                "suffix" => bounds.suffix.replace(suffix(&value)?).is_some(),
                _ => {
                    let message = "unknown argument: there are the launch bounds `max_threads`, \
                                   `min_blocks` and `cluster`, and `suffix`";
                    return Err(Error::new(name.span(), message));
                }
            };
            if seen_before {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        match (&bounds.max_threads, min_blocks_name) {
            (None, Some(name)) => {
                Err(Error::new(name.span(), "`min_blocks` needs `max_threads` beside it"))
            }
            _ => Ok(bounds),
        }
    }
}

fn cluster(value: Expr) -> syn::Result<[Expr; 3]> {
    let span = value.span();
    let extents: Vec<_> = match value {
        Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
        along_x => vec![along_x, parse_quote!(1), parse_quote!(1)],
    };
    let wrong = "`cluster` is an extent along x, or three: `(X, Y, Z)`";
    extents.try_into().map_err(|_| Error::new(span, wrong))
}

/// The value may come through a `macro_rules` macro, which wraps it.
fn suffix(value: &Expr) -> syn::Result<String> {
    let text = match value {
        Expr::Group(group) => return suffix(&group.expr),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    };
    text.filter(|text| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .ok_or_else(|| Error::new(value.span(), "`suffix` is a string of letters, digits and `_`"))
}

impl Bounds {
    /// Checks of the values, for host and device, and the line that `cuda_builder` reads, for the
    /// device. `aligned` are the parameters with an alignment of their type's: number and type.
    fn items(&self, kernel: &Ident, aligned: &[(TokenStream, &Type)]) -> TokenStream {
        let mut line = format!("//@kernel {kernel}");
        let mut operands = TokenStream::new();
        let mut checks = TokenStream::new();
        let mut add = |key: &str, name: &str, value: &Expr| {
            line.push_str(&format!("{key}{{{name}}}"));
            let name = format_ident!("{name}");
            // A typed block, so that the value prints as a plain decimal number.
            operands.extend(quote!(#name = const { let value: u32 = #value; value },));
            checks.extend(quote_spanned!(value.span()=> let #name: u32 = #value;));
        };
        if let Some(value) = &self.max_threads {
            add(" max_threads=", "max_threads", value);
        }
        if let Some(value) = &self.min_blocks {
            add(" min_blocks=", "min_blocks", value);
        }
        if let Some([x, y, z]) = &self.cluster {
            add(" cluster=", "x", x);
            add(",", "y", y);
            add(",", "z", z);
        }
        for (index, (number, ty)) in aligned.iter().enumerate() {
            line.push_str(&format!(" align={{number_{index}}}:{{align_{index}}}"));
            let (name, align) = (format_ident!("number_{index}"), format_ident!("align_{index}"));
            operands.extend(quote! {
                #name = const #number,
                #align = const { ::core::mem::align_of::<#ty>() },
            });
        }
        if self.max_threads.is_some() {
            checks.extend(quote! {
                assert!(1 <= max_threads && max_threads <= 1024, "max_threads must be 1 to 1024");
            });
        }
        if self.min_blocks.is_some() {
            checks.extend(quote! {
                assert!(1 <= min_blocks && min_blocks <= 32, "min_blocks must be 1 to 32");
            });
        }
        if self.cluster.is_some() {
            checks.extend(quote! {
                assert!(x >= 1 && y >= 1 && z >= 1, "a cluster's extents must be at least 1");
                assert!(x as u64 * y as u64 * z as u64 <= 16, "a cluster has at most 16 blocks");
            });
        }
        quote! {
            const _: () = { #checks };
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#line, #operands);
        }
    }
}

/// One argument of the source: what the entry takes for it, and what turns that back at the head of
/// the body.
struct Argument {
    device: TokenStream,
    restore: TokenStream,
    check: TokenStream,
    /// An expression: how many parameters of the entry it is.
    parameters: TokenStream,
}

/// The attributes that decide whether an argument is there.
fn conditions(attrs: &[Attribute]) -> TokenStream {
    let conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    quote!(#(#conditions)*)
}

/// A block with the sum of `counts`, whose types may name the kernel's lifetimes: the number of the
/// parameter behind them. The compiler adds up, which knows sizes and conditions.
fn number(counts: &[TokenStream], generics: &Generics) -> TokenStream {
    let where_clause = &generics.where_clause;
    quote! {{
        const fn number #generics () -> usize #where_clause {
            ::cuda_std::entry::sum(&[#(#counts),*])
        }
        number()
    }}
}

const GRID_CONSTANT: &str = "grid_constant";

/// An argument `#[grid_constant] x: &T`: a `T` by value, and in the body a reference to the
/// parameter itself. rustc has neither a way to take a parameter's address, which is therefore
/// named as LLVM names it, nor one for an alignment of more than 16, which `cuda_builder` sets.
fn grid_constant(
    kernel: &Ident,
    number: &TokenStream,
    index: usize,
    argument: &PatType,
) -> syn::Result<Argument> {
    let PatType { attrs, pat, ty, .. } = argument;
    if let Some(condition) = attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
        let wrong = "a `#[grid_constant]` argument can't have a `#[cfg]`: write a kernel for each";
        return Err(Error::new_spanned(condition, wrong));
    }
    let attrs = attrs.iter().filter(|attr| !attr.path().is_ident(GRID_CONSTANT));
    let pointee = grid_constant_type(ty)?;
    let address = format!("mov.b64 {{0}}, {kernel}_param_{{number}}; cvta.param.u64 {{0}}, {{0}};");
    let parameter = format_ident!("_parameter_{index}");
    Ok(Argument {
        device: quote! {
            #parameter: ::cuda_std::entry::GridConstant<{ ::core::mem::size_of::<#pointee>() }>
        },
        restore: quote! {
            #(#attrs)*
            // SAFETY: the parameter's own address; the launch passed the type's bytes, and nothing
            // writes to parameters.
            let #pat: #ty = unsafe {
                let address: *const #pointee;
                ::core::arch::asm!(
                    #address, out(reg64) address, number = const #number,
                    options(pure, nomem, nostack)
                );
                &*address
            };
        },
        check: quote_spanned! {ty.span()=>
            ::cuda_std::entry::argument_is_copy::<#pointee>();
            const { ::cuda_std::entry::grid_constant_is_passable::<#pointee>() };
        },
        parameters: quote!(1),
    })
}

/// `T` of `&T`.
fn grid_constant_type(ty: &Type) -> syn::Result<&Type> {
    match bare(ty) {
        Type::Reference(reference)
            if reference.mutability.is_none()
                && !matches!(bare(&reference.elem), Type::Slice(_) | Type::TraitObject(_)) =>
        {
            Ok(&reference.elem)
        }
        _ => Err(Error::new_spanned(ty, "a `#[grid_constant]` argument has a type `&T`")),
    }
}

fn is_grid_constant(argument: &PatType) -> bool {
    argument.attrs.iter().any(|attr| attr.path().is_ident(GRID_CONSTANT))
}

/// A type without what macros and parentheses put around it.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

fn argument(index: usize, argument: &PatType) -> syn::Result<Argument> {
    let PatType { attrs, pat, ty, .. } = argument;
    let condition = conditions(attrs);
    let wide =
        "this wide pointer can't be a kernel argument: pass `&[T]`, or a pointer and a length";
    let sized = |pointee: &Type| {
        let span = pointee.span();
        quote_spanned!(span=> ::cuda_std::entry::pointee_is_sized::<#pointee>();)
    };
    let plain = |check: TokenStream| Argument {
        device: quote!(#(#attrs)* #pat: #ty),
        restore: TokenStream::new(),
        check: quote_spanned! {ty.span()=> #condition {
            #[allow(unused_imports)] // where the type has such a constant of its own
            use ::cuda_std::entry::AnyArgument as _;
            ::cuda_std::entry::argument_is_copy::<#ty>();
            const { ::cuda_std::entry::argument_is_passable::<#ty>() };
            const {
                let is_wide = ::cuda_std::entry::Argument::<#ty>::IS_WIDE;
                ::cuda_std::entry::argument_is_narrow(is_wide);
            }
            #check
        }},
        // rustc leaves out what has no size.
        parameters: quote!(#condition { (::core::mem::size_of::<#ty>() != 0) as usize }),
    };
    Ok(match bare(ty) {
        Type::Reference(reference) => match bare(&reference.elem) {
            Type::Slice(slice) => {
                let element = &slice.elem;
                let (pointer, len) =
                    (format_ident!("slice_{index}_pointer"), format_ident!("slice_{index}_len"));
                let (qualifier, rebuild) = match reference.mutability {
                    Some(_) => (quote!(*mut), format_ident!("slice_mut")),
                    None => (quote!(*const), format_ident!("slice")),
                };
                Argument {
                    device: quote! {
                        #condition #pointer: #qualifier #element, #condition #len: usize
                    },
                    restore: quote! {
                        #(#attrs)*
                        // SAFETY: the launch passed the pointer and the length of one buffer, as
                        // the kernel's caller has to.
                        let #pat: #ty = unsafe { ::cuda_std::entry::#rebuild(#pointer, #len) };
                    },
                    check: TokenStream::new(),
                    parameters: quote!(#condition 2),
                }
            }
            Type::TraitObject(_) => return Err(Error::new_spanned(ty, wide)),
            pointee => plain(sized(pointee)),
        },
        Type::Ptr(pointer) => match bare(&pointer.elem) {
            Type::Slice(_) | Type::TraitObject(_) => return Err(Error::new_spanned(ty, wide)),
            pointee => plain(sized(pointee)),
        },
        Type::ImplTrait(_) => {
            return Err(Error::new_spanned(ty, "a kernel's argument must have one concrete type"));
        }
        _ => plain(TokenStream::new()),
    })
}

fn check_signature(signature: &Signature) -> syn::Result<()> {
    let name = &signature.ident;
    if signature.unsafety.is_none() {
        return Err(Error::new_spanned(
            signature.fn_token,
            format!("kernel `{name}` must be `unsafe fn`: a launch promises what no type checks"),
        ));
    }
    if let ReturnType::Type(..) = signature.output {
        return Err(Error::new_spanned(
            &signature.output,
            "a kernel returns nothing: write the result through a pointer argument",
        ));
    }
    if let Some(constness) = signature.constness {
        return Err(Error::new_spanned(constness, "a kernel can't be `const`"));
    }
    if let Some(asyncness) = signature.asyncness {
        return Err(Error::new_spanned(asyncness, "a kernel can't be `async`"));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(Error::new_spanned(variadic, "a kernel can't be variadic"));
    }
    if let Some(abi) = &signature.abi
        && abi.name.as_ref().is_some_and(|name| name.value() != "C")
    {
        return Err(Error::new_spanned(
            abi,
            "a kernel's ABI is the macro's to choose: leave it out",
        ));
    }
    for parameter in &signature.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            return Err(Error::new_spanned(
                parameter,
                "a kernel is one entry point and can't be generic: call a generic function from it",
            ));
        }
    }
    Ok(())
}

pub fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let bounds: Bounds = syn::parse2(arguments)?;
    let ItemFn { attrs, vis, mut sig, block } = syn::parse2(item)?;
    if let Some(suffix) = &bounds.suffix {
        sig.ident = format_ident!("{}{suffix}", sig.ident);
    }
    check_signature(&sig)?;
    let mut parsed = Vec::new();
    let mut aligned = Vec::new();
    let mut counts = Vec::new();
    for (index, input) in sig.inputs.iter().enumerate() {
        let argument = match input {
            FnArg::Receiver(receiver) => {
                return Err(Error::new_spanned(receiver, "a kernel can't be a method: no `self`"));
            }
            FnArg::Typed(typed) if is_grid_constant(typed) => {
                let number = number(&counts, &sig.generics);
                let argument = grid_constant(&sig.ident, &number, index, typed)?;
                aligned.push((number, grid_constant_type(&typed.ty)?));
                argument
            }
            FnArg::Typed(typed) => argument(index, typed)?,
        };
        counts.push(argument.parameters.clone());
        parsed.push(argument);
    }
    let checks: TokenStream = parsed.iter().map(|argument| argument.check.clone()).collect();
    let restores: TokenStream = parsed.iter().map(|argument| argument.restore.clone()).collect();
    let device: Punctuated<_, Token![,]> = parsed.iter().map(|argument| &argument.device).collect();
    let Signature { ident, generics, .. } = &sig;
    let mut inputs = sig.inputs.clone();
    for input in &mut inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.retain(|attr| !attr.path().is_ident(GRID_CONSTANT));
        }
    }
    let where_clause = &generics.where_clause;
    let statements = &block.stmts;
    let items = bounds.items(ident, &aligned);
    // On the host a kernel is checked, and becomes code only where somebody calls it.
    let inline =
        (!attrs.iter().any(|attr| attr.path().is_ident("inline"))).then(|| quote!(#[inline]));
    Ok(quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #inline
        #(#attrs)*
        #vis unsafe fn #ident #generics (#inputs) #where_clause {
            #checks
            #(#statements)*
        }

        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #ident #generics (#device) #where_clause {
            #checks
            #restores
            #(#statements)*
        }

        #items
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::{Delimiter, Group};

    fn f() -> TokenStream {
        quote!(
            unsafe fn f() {}
        )
    }

    fn error(arguments: TokenStream, item: TokenStream) -> String {
        expand(arguments, item).unwrap_err().to_string()
    }

    #[test]
    fn slices_become_pointer_and_length() {
        let item = quote!(
            pub unsafe fn f(x: &[f32], y: &mut [f32], n: usize) {}
        );
        let text = expand(quote!(), item).unwrap().to_string();
        let entry = "extern \"ptx-kernel\" fn f (slice_0_pointer : * const f32 , slice_0_len : \
            usize , \
                     slice_1_pointer : * mut f32 , slice_1_len : usize , n : usize)";
        assert!(text.contains(entry), "{text}");
        assert!(text.contains("unsafe fn f (x : & [f32] , y : & mut [f32] , n : usize)"), "{text}");
    }

    #[test]
    fn bounds_become_a_line_for_the_builder() {
        let bounds = quote!(max_threads = T * T, min_blocks = 2, cluster = (2, 1, 1));
        let text = expand(
            bounds,
            quote!(
                unsafe fn f() {}
            ),
        )
        .unwrap()
        .to_string();
        let line =
            "\"//@kernel f max_threads={max_threads} min_blocks={min_blocks} cluster={x},{y},{z}\"";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("let value : u32 = T * T"), "{text}");
    }

    #[test]
    fn a_kernel_without_bounds_has_a_line_too() {
        let text = expand(
            quote!(),
            quote!(
                unsafe fn f() {}
            ),
        )
        .unwrap()
        .to_string();
        assert!(text.contains("\"//@kernel f\""), "{text}");
    }

    #[test]
    fn wrong_signatures_are_refused() {
        for (source, reason) in [
            ("fn f() {}", "must be `unsafe fn`"),
            ("unsafe fn f() -> u32 { 0 }", "returns nothing"),
            ("unsafe fn f(&self) {}", "no `self`"),
            ("unsafe fn f<T>(x: T) {}", "can't be generic"),
            ("unsafe fn f<const N: usize>() {}", "generic"),
            ("async unsafe fn f() {}", "async"),
            ("const unsafe fn f() {}", "const"),
            ("unsafe extern \"system\" fn f() {}", "ABI"),
            ("unsafe fn f(x: impl Copy) {}", "concrete"),
        ] {
            let message = error(quote!(), source.parse().unwrap());
            assert!(message.contains(reason), "{source}: {message}");
        }
    }

    #[test]
    fn wide_pointers_other_than_slices_are_refused() {
        assert!(
            error(
                quote!(),
                quote!(
                    unsafe fn f(x: *const [u8]) {}
                )
            )
            .contains("wide pointer")
        );
        assert!(
            error(
                quote!(),
                quote!(
                    unsafe fn f(x: &dyn Copy) {}
                )
            )
            .contains("wide pointer")
        );
    }

    #[test]
    fn wrong_bounds_are_refused() {
        assert!(error(quote!(block_dim = 2), f()).contains("unknown argument"));
        assert!(error(quote!(min_blocks = 2), f()).contains("needs `max_threads`"));
        assert!(error(quote!(suffix = 2), f()).contains("is a string"));
        assert!(error(quote!(suffix = "-x"), f()).contains("is a string"));
        assert!(error(quote!(max_threads = 2, max_threads = 2), f()).contains("twice"));
        assert!(error(quote!(cluster = (2, 1)), f()).contains("(X, Y, Z)"));
        assert!(error(quote!(cluster = ()), f()).contains("(X, Y, Z)"));
    }

    #[test]
    fn a_suffix_stands_behind_the_name() {
        let text = expand(quote!(max_threads = 32, suffix = "_lean"), f()).unwrap().to_string();
        assert!(text.contains("extern \"ptx-kernel\" fn f_lean ()"), "{text}");
        assert!(text.contains("//@kernel f_lean max_threads"), "{text}");
    }

    #[test]
    fn a_cluster_may_be_one_number() {
        let text = expand(quote!(cluster = N), f()).unwrap().to_string();
        assert!(text.contains("cluster={x},{y},{z}"), "{text}");
        assert!(text.contains("let x : u32 = N ; let y : u32 = 1 ; let z : u32 = 1 ;"), "{text}");
    }

    #[test]
    fn grid_constants_are_values_with_an_address() {
        let item = quote!(
            unsafe fn f(x: &[f32], #[grid_constant] map: &Map, n: u32) {}
        );
        let text = expand(quote!(), item).unwrap().to_string();
        let entry = "_parameter_1 : :: cuda_std :: entry :: GridConstant < { :: core :: mem :: \
            size_of :: < Map > () } > , n : u32)";
        assert!(text.contains(entry), "{text}");
        let address = "\"mov.b64 {0}, f_param_{number}; cvta.param.u64 {0}, {0};\"";
        assert!(text.contains(address), "{text}");
        assert!(text.contains("\"//@kernel f align={number_0}:{align_0}\""), "{text}");
        // In both, of the slice's two parameters; tests/device has what the compiler makes of it.
        let number = ":: cuda_std :: entry :: sum (& [2])";
        assert_eq!(text.matches(number).count(), 2, "{text}");
        assert!(text.contains("unsafe fn f (x : & [f32] , map : & Map , n : u32)"), "{text}");
        for wrong in ["Map", "&mut Map", "&[Map]", "*const Map"] {
            let item = format!("unsafe fn f(#[grid_constant] map: {wrong}) {{}}").parse().unwrap();
            assert!(error(quote!(), item).contains("has a type `&T`"), "{wrong}");
        }
    }

    #[test]
    fn grid_constants_may_come_through_a_macro() {
        // As `$t:ty` comes.
        let group = |ty| Group::new(Delimiter::None, ty);
        let kernel = |ty: Group| {
            let item = quote!(
                unsafe fn f(#[grid_constant] map: #ty) {}
            );
            expand(quote!(), item)
        };
        assert!(kernel(group(quote!(&Map))).unwrap().to_string().contains("size_of :: < Map >"));
        let slice = group(quote!([Map]));
        let refused = kernel(group(quote!(&#slice))).unwrap_err().to_string();
        assert!(refused.contains("has a type `&T`"), "{refused}");
    }

    #[test]
    fn conditions_go_with_their_arguments() {
        let item = quote!(
            unsafe fn f(#[cfg(x)] a: &[f32], #[cfg(x)] n: N, #[grid_constant] map: &Map) {}
        );
        let text = expand(quote!(), item).unwrap().to_string();
        assert_eq!(text.matches("# [cfg (x)] slice_0").count(), 2, "{text}");
        let counts = "sum (& [# [cfg (x)] 2 , # [cfg (x)] { (:: core :: mem :: size_of :: < N > \
            () != 0) as usize }])";
        assert_eq!(text.matches(counts).count(), 2, "{text}");
        let item = quote!(
            unsafe fn f(
                #[cfg(x)]
                #[grid_constant]
                map: &Map,
            ) {
            }
        );
        assert!(error(quote!(), item).contains("can't have a `#[cfg]`"));
    }

    #[test]
    fn arguments_keep_their_patterns_and_are_checked() {
        let item = quote!(
            unsafe fn f(mut n: u32, p: *const f64) {}
        );
        let text = expand(quote!(), item).unwrap().to_string();
        assert!(text.contains("fn f (mut n : u32 , p : * const f64)"), "{text}");
        assert!(text.contains("argument_is_copy :: < u32 >"), "{text}");
        assert!(text.contains("pointee_is_sized :: < f64 >"), "{text}");
    }
}
